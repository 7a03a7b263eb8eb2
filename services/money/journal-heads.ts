import { createMac, type MessageKeySettings } from '../crypto/mac.ts'
import type { ChainHead } from './journal-chain.ts'

/** The ends of all tenants' chains at a moment, as they are kept outside of the system. */
export type JournalHeads = {
  /** Unix ms. */
  readonly at: number
  readonly tenants: readonly (ChainHead & { readonly tenant: string })[]
}

/** Writes heads as signed JSON in one line, and reads what is authentic of that. */
export type HeadsCodec = {
  readonly encode: (heads: JournalHeads) => string
  /** Undefined for a text that no ledger has written, or that was changed. */
  readonly decode: (text: string) => JournalHeads | undefined
}

/**
 * `purpose` keeps heads apart that say different things: those that were exported are no heads that
 * an audit has proven.
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

/** The order of the fields does not matter: a receiver may store the document as JSON. */
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
