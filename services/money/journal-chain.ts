import { createHash } from 'node:crypto'
import type { Journal } from '../../schemas/types.ts'

/** Sequence numbers, both ends inclusive. */
export type Range = readonly [first: number, last: number]

/**
 * The head of a tenant's hash chain: the number of its last entry, the hex SHA-256 over all its
 * entries, and the numbers below that are missing, in ascending order.
 */
export type ChainHead = {
  readonly seq: number
  readonly hash: string
  readonly missing: readonly Range[]
}

/** The head of an empty journal. */
export const CHAIN_START: ChainHead = { seq: 0, hash: '0'.repeat(64), missing: [] }

/**
 * The text of an entry that is signed and chained: a JSON array of a version and all fields in a
 * fixed order, so that no two entries share a text. The sealed header is included as its SHA-256.
 */
export function canonicalText (entry: Journal): string {
  return JSON.stringify([
    1, entry.tenant, entry.seq, entry.entryId, entry.type, entry.job,
    entry.amountMicros, entry.chargeMicros,
    entry.availableMicros, entry.reservedMicros, entry.chargedMicros, entry.fundedMicros,
    entry.at, entry.reason,
    entry.header === null || entry.header.length === 0 ? '' : hexDigest(entry.header),
  ])
}

/** The hash of the entry with this canonical text, after an entry with the hash `prev`. */
export function hashAfter (prev: string, text: string): string {
  return hexDigest(`${prev}\n${text}`)
}

/** The head after one more entry. Entries come in ascending order; a repeated number is skipped. */
export function extendChain (head: ChainHead, entry: Journal): ChainHead {
  if (entry.seq <= head.seq) return head
  const gap: Range = [head.seq + 1, entry.seq - 1]
  return {
    seq: entry.seq,
    hash: hashAfter(head.hash, canonicalText(entry)),
    missing: gap[0] > gap[1] ? head.missing : [...head.missing, gap],
  }
}

function hexDigest (content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
