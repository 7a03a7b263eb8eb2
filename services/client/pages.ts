type Page<T> = {
  readonly data: readonly T[]
  readonly has_more: boolean
  readonly next_cursor: string | null
}

/** Iterates over all items of a paginated list. `name` is the query parameter of the cursor. */
export async function * paginate<T> (
  read: (cursor: Readonly<Record<string, string>>) => Promise<Page<T>>, name: string
): AsyncIterable<T> {
  let cursor = {}
  for (;;) {
    const { data, next_cursor: next } = await read(cursor)
    yield * data
    if (next === null) return
    cursor = { [name]: next }
  }
}

type QueryValue = string | number | boolean | readonly string[]

/** Formats defined fields as `?a=1&b=2`, lists with commas; returns '' when there are none. */
export function queryString (
  fields: Readonly<Record<string, QueryValue | undefined>>
): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) query.set(name, String(value))
  }
  return query.size === 0 ? '' : `?${query}`
}
