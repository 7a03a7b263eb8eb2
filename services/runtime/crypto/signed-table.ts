import type { RecordMac, SignedRecord } from './mac.ts'

/** How a field is a column of ClickHouse. */
type Column<Value> = {
  readonly name: string
  /** Integers of 64 bits come as text. */
  readonly selected: string
  readonly toStored: (value: Value) => unknown
  readonly parse: (stored: string) => Value
}

export const text = <Value extends string>(name: string): Column<Value> =>
  ({ name, selected: name, toStored: value => value, parse: stored => stored as Value })

export const number = (name: string): Column<number> =>
  ({ name, selected: name, toStored: value => value, parse: Number })

/** Unix ms. */
export const dateTime = (name: string): Column<number> => ({
  name,
  selected: `toUnixTimestamp64Milli(${name}) AS ${name}`,
  toStored: value => new Date(value).toISOString(),
  parse: Number,
})

export const bytes = (name: string): Column<Buffer> => ({
  name: `${name}_base64`,
  selected: `base64Encode(${name}) AS ${name}_base64`,
  toStored: value => value.toString('base64'),
  parse: stored => Buffer.from(stored, 'base64'),
})

/** A row as it is selected. */
export type SignedRow = Readonly<Record<string, string>> & { readonly mac: string }

/** A table of signed entries: its columns by the fields of an entry, and what is signed. */
export function signedTable<Entry extends object> (
  columns: { readonly [Field in keyof Entry]-?: Column<Entry[Field]> },
  toSigned: (entry: Entry) => SignedRecord
) {
  const fields = Object.entries(columns) as [keyof Entry, Column<Entry[keyof Entry]>][]
  const toEntry = (row: SignedRow): Entry => {
    const entry: Partial<Entry> = {}
    for (const [field, { name, parse }] of fields) entry[field] = parse(row[name] ?? '')
    return entry as Entry
  }
  return {
    selected: [...fields.map(([, { selected }]) => selected), 'mac'].join(', '),
    toRow: (entry: Entry, mac: RecordMac) => ({
      ...Object.fromEntries(
        fields.map(([field, { name, toStored }]) => [name, toStored(entry[field])])),
      mac: mac.sign(toSigned(entry)),
    }),
    toEntry,

    /** Whether a service stored the row of an entry; a forged one is reported. */
    isSigned: (row: SignedRow, entry: Entry, mac: RecordMac): boolean =>
      mac.isAuthentic(row.mac, toSigned(entry)),

    /** The entries of rows, each once, however often it is stored, and those of forged rows. */
    read: async (rows: AsyncIterable<SignedRow> | readonly SignedRow[], mac: RecordMac) => {
      const entries = new Map<string, Entry>()
      const forged: Entry[] = []
      for await (const row of rows) {
        const entry = toEntry(row)
        const signed = toSigned(entry)
        if (mac.isAuthentic(row.mac, signed)) entries.set(signed.content, entry)
        else forged.push(entry)
      }
      return { entries: [...entries.values()], forged }
    },
  }
}
