import { createMac, type MessageKeySettings } from '../crypto/mac.ts'
import type { ChainHead } from './journal-chain.ts'

/** The heads of all tenants' chains at one time, as they are exported from the system. */
export type JournalHeads = {
  /** Unix ms. */
  readonly at: number
  readonly tenants: readonly (ChainHead & { readonly tenant: string })[]
}

/** Encodes heads as one line of signed JSON, and decodes authentic lines only. */
export type HeadsCodec = {
  readonly encode: (heads: JournalHeads) => string
  /** Undefined for a text without a valid MAC. */
  readonly decode: (text: string) => JournalHeads | undefined
}

/**
 * Creates a codec of heads. `purpose` is part of the MAC: an exported head is not accepted as a
 * head that an audit has proven.
 * @throws TypeError when the active key is not among the keys.
 */
export function createHeadsCodec (
  settings: MessageKeySettings, purpose: 'journal head' | 'proven journal head' = 'journal head'
): HeadsCodec {
  const { sign, isAuthentic } = createMac(settings)
  return {
    encode: ({ at, tenants }) => {
      const mac = sign(purpose, contentOf({ at, tenants }))
      return JSON.stringify({ version: 1, at, tenants, mac })
    },
    decode: text => {
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
