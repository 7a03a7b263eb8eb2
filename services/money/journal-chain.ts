import { createHash } from 'node:crypto'
import type { Journal } from '../../schemas/types.ts'

/** Numbers from the first to the last, both included. */
export type Range = readonly [first: number, last: number]

/**
 * How far a tenant's journal is: the number of its last entry, a hex SHA-256 over the chain of all
 * its entries, and the numbers below that were not there, in order.
 */
export type ChainHead = {
  readonly seq: number
  readonly hash: string
  readonly missing: readonly Range[]
}

/** Where every tenant's chain begins. */
export const START: ChainHead = { seq: 0, hash: '0'.repeat(64), missing: [] }

/**
 * The text of an entry that is signed and chained: a JSON array, so that no two entries share a
 * text, of a version and all fields in a fixed order; the sealed header stands as its SHA-256.
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

/** The head after one more entry; entries come in order, and a repeated number is skipped. */
export function follow (head: ChainHead, entry: Journal): ChainHead {
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
