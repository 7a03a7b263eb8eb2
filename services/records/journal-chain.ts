import { createHash } from 'node:crypto'
import type { Journal } from '../../schemas/types.ts'

/** What the first entry of a tenant follows. */
export const GENESIS = '0'.repeat(64)

/** The last entry of a tenant's chain. */
export type ChainHead = { readonly seq: number, readonly hash: string }

/** Where every tenant's chain begins. */
export const START: ChainHead = { seq: 0, hash: GENESIS }

/** An entry in its place in the chain: `prev` and `hash` are hex SHA-256. */
export type Link = { readonly entry: Journal, readonly prev: string, readonly hash: string }

/**
 * The text of an entry that the chain is made of: a JSON array, so that no two entries share a
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

/** The hash of an entry that follows `prev`: SHA-256 of the previous hash and the entry's text. */
export function nextHash (prev: string, entry: Journal): string {
  return hashAfter(prev, canonicalText(entry))
}

/** The same for an entry whose canonical text is known. */
export function hashAfter (prev: string, text: string): string {
  return hexDigest(`${prev}\n${text}`)
}

export type Chained = {
  readonly links: readonly Link[]
  readonly head: ChainHead
}

/** Continues a tenant's chain: entries it has are skipped, and nothing is taken beyond a gap. */
export function continueChain (head: ChainHead, entries: readonly Journal[]): Chained {
  const links: Link[] = []
  let { seq, hash } = head
  for (const entry of entries.toSorted((a, b) => a.seq - b.seq)) {
    if (entry.seq !== seq + 1) continue
    const prev = hash
    hash = nextHash(prev, entry)
    seq = entry.seq
    links.push({ entry, prev, hash })
  }
  return { links, head: { seq, hash } }
}

function hexDigest (content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
