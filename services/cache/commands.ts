import { createReader, isLease, type CachedRecord } from './entries.ts'
import { pickTokens, TOKEN_BYTES } from './tokens.ts'

/** Entries of a cache: the name of each is `start` and the 16 bytes of its token. */
export type Entries = { readonly start: string, readonly tokens: Buffer }

/** What is asked of Redis: one command a list, as commands by the row cost more than checks. */
export type CacheCommands = {
  readonly find: (entries: Entries) => Promise<readonly (string | null)[]>
  /**
   * What each contact's entry holds; null where it now holds the contact's text of `own`, for so
   * many milliseconds. `useless` texts are overwritten. There is a list for each version of the
   * tokens, with the same contacts: a record or lease under any is the contact's own.
   */
  readonly claim: (
    lists: readonly Entries[], own: readonly string[],
    options: { readonly ms: number, readonly useless: readonly string[] },
  ) => Promise<readonly (string | null)[]>
  /** Keeps one value an entry for so many milliseconds. */
  readonly keep: (entries: Entries, values: readonly string[], ms: number) => Promise<void>
  /** Ends the leases that are still the owner's. */
  readonly release: (entries: Entries, lease: string) => Promise<void>
}

export type Taking = {
  readonly usable: (record: CachedRecord) => boolean
  readonly own: readonly string[]
  readonly ms: number
}

/**
 * Takes contacts for whoever comes first: what others have of each; undefined where the text of
 * one's own stands now. Records that may not be used are asked for once more, to be overwritten
 * unless they were replaced meanwhile.
 */
export async function takeAll (
  commands: CacheCommands, lists: readonly Entries[], { own, ms, usable }: Taking
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
  const second = await commands.claim(lists.map((list) => pick(list, again)), theirs,
    { ms, useless })
  for (const [index, row] of again.entries()) first[row] = readOne(second[index], row)
  return first.map(unlessUseless)
}

function unlessUseless<T> (held: T | 'useless'): T | undefined {
  return held === 'useless' ? undefined : held
}

/** One a token. */
export function rowsOf (tokens: Buffer): number {
  return tokens.length / TOKEN_BYTES
}

/** Those of some contacts, in ascending order. */
export function pick ({ start, tokens }: Entries, rows: readonly number[]): Entries {
  return { start, tokens: pickTokens(tokens, rows) }
}
