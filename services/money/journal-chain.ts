import { hash } from 'node:crypto'
import type { Journal } from '../../schemas/types.ts'
import { createMac, type MessageKeySettings } from '../runtime/crypto/mac.ts'

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
    entry.header === null || entry.header.length === 0 ? '' : hash('sha256', entry.header),
  ])
}

/** The hash of the entry with this canonical text, after an entry with the hash `prev`. */
export function hashAfter (prev: string, text: string): string {
  return hash('sha256', `${prev}\n${text}`)
}

/** The head after one more entry. Entries come in ascending order; a repeated number is skipped. */
export function extendChain (head: ChainHead, entry: Journal): ChainHead {
  return extendByText(head, entry.seq, () => canonicalText(entry))
}

/** The same for any chain of numbered texts. */
export function extendByText (head: ChainHead, seq: number, text: () => string): ChainHead {
  if (seq <= head.seq) return head
  const gap: Range = [head.seq + 1, seq - 1]
  return {
    seq,
    hash: hashAfter(head.hash, text()),
    missing: gap[0] > gap[1] ? head.missing : [...head.missing, gap],
  }
}

/** The heads of all tenants' chains at one time, as they are exported from the system. */
export type JournalHeads = {
  /** Unix ms. */
  readonly at: number
  /** The head of the access log is one of them, under its own name. */
  readonly tenants: readonly (ChainHead & { readonly tenant: string })[]
}

export type HeadsCodec = ReturnType<typeof createHeadsCodec>

/**
 * Encodes heads as one line of signed JSON, and decodes authentic lines only. `purpose` is part of
 * the MAC: an exported head is not accepted as a head that an audit has proven.
 * @throws TypeError when the active key is not among the keys.
 */
export function createHeadsCodec (
  settings: MessageKeySettings, purpose: 'journal head' | 'proven journal head' = 'journal head'
) {
  const { sign, isAuthentic } = createMac(settings)
  return {
    encode: ({ at, tenants }: JournalHeads): string => {
      const mac = sign(purpose, contentOf({ at, tenants }))
      return JSON.stringify({ version: 1, at, tenants, mac })
    },

    /** Undefined for a text without a valid MAC. */
    decode: (text: string): JournalHeads | undefined => {
      const document = parse(text)
      if (document?.version !== 1 || !Array.isArray(document.tenants)) return undefined
      return isAuthentic(String(document.mac), purpose, contentOf(document)) ? document : undefined
    },
  }
}

type Document = JournalHeads & { readonly version: unknown, readonly mac: unknown }

/** Independent of the order of fields, as a receiver may store the document as parsed JSON. */
function contentOf ({ at, tenants }: JournalHeads): readonly string[] {
  return [JSON.stringify([1, at, tenants.map(head =>
    [head?.tenant, head?.seq, head?.hash, head?.missing])])]
}

function parse (text: string): Document | null | undefined {
  try {
    return JSON.parse(text) as Document | null
  } catch {
    return undefined
  }
}
