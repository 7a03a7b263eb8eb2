import { createReader, isLease, type CachedRecord } from './entries.ts'
import { pickTokens, TOKEN_BYTES } from './tokens.ts'

/** Cache entries: the name of each is `keyPrefix` and the 16 bytes of its token. */
export type Entries = { readonly keyPrefix: string, readonly tokens: Buffer }

/**
 * The commands of the cache: one per list, because commands per row would cost more than checks.
 */
export type CacheCommands = {
  readonly find: (entries: Entries) => Promise<readonly (string | null)[]>
  /**
   * Returns the value of the entry of each contact; null if it was set to the text in `own`, for
   * `ms` milliseconds. `useless` texts are overwritten. There is one list per version of the
   * tokens, with the same contacts: a record or lease in any of them counts.
   */
  readonly claim: (
    lists: readonly Entries[], own: readonly string[],
    options: { readonly ms: number, readonly useless: readonly string[] },
  ) => Promise<readonly (string | null)[]>
  /** Sets one value per entry, for `ms` milliseconds. */
  readonly keep: (entries: Entries, values: readonly string[], ms: number) => Promise<void>
  /** Deletes the leases that still belong to the owner. */
  readonly release: (entries: Entries, lease: string) => Promise<void>
}

export type ClaimOptions = {
  readonly usable: (record: CachedRecord) => boolean
  readonly own: readonly string[]
  readonly ms: number
}

/**
 * Claims contacts for the first caller: returns the values of others, or undefined where the own
 * text is stored now. Records that cannot be used are claimed a second time and overwritten, unless
 * they were replaced in between.
 */
export async function claimEntries (
  commands: CacheCommands, lists: readonly Entries[], { own, ms, usable }: ClaimOptions
): Promise<readonly (CachedRecord | 'held' | undefined)[]> {
  const read = createReader()
  const readOne = (text: string | null | undefined, row: number) => {
    if (typeof text !== 'string' || text === own[row]) return undefined
    if (isLease(text)) return 'held'
    const record = read(text)
    return record !== undefined && usable(record) ? record : 'useless'
  }
  const texts = await commands.claim(lists, own, { ms, useless: [] })
  const first = texts.map(readOne)
  const again = [...first.keys()].filter((row) => first[row] === 'useless')
  if (again.length === 0) return first.map(unlessUseless)
  const useless = [...new Set(again.map((row) => texts[row] ?? ''))]
  const theirs = again.map((row) => own[row] ?? '')
  const second = await commands.claim(lists.map((list) => pickEntries(list, again)), theirs,
    { ms, useless })
  for (const [index, row] of again.entries()) first[row] = readOne(second[index], row)
  return first.map(unlessUseless)
}

function unlessUseless<T> (held: T | 'useless'): T | undefined {
  return held === 'useless' ? undefined : held
}

/** The number of tokens in a list. */
export function tokenCount (tokens: Buffer): number {
  return tokens.length / TOKEN_BYTES
}

/** The entries at some positions, in ascending order. */
export function pickEntries ({ keyPrefix, tokens }: Entries, rows: readonly number[]): Entries {
  return { keyPrefix, tokens: pickTokens(tokens, rows) }
}
