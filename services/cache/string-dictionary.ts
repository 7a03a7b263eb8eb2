/** Strings of rows: each distinct one once, and for each row its number in two bytes. */
export type StringDictionary = { readonly numbers: Buffer, readonly texts: readonly string[] }

/** In the format of the Lua scripts: numbers start at 1. */
export function packStrings (rows: readonly string[]): StringDictionary {
  const known = new Map<string, number>()
  const numbers = Buffer.allocUnsafe(rows.length * 2)
  for (let row = 0; row < rows.length; row++) {
    const text = rows[row] ?? ''
    const number = known.get(text) ?? known.size + 1
    if (number > known.size) known.set(text, number)
    numbers[row * 2] = number >> 8
    numbers[row * 2 + 1] = number & 0xff
  }
  return { numbers, texts: [...known.keys()] }
}

/** Decodes the reply of a script: the string of each row, or null. Equal rows share one string. */
export function unpackStrings (reply: unknown): readonly (string | null)[] {
  const [numbers, parts] = reply as readonly [Buffer, readonly Buffer[]]
  const rows = new Array<string | null>(numbers.length / 2).fill(null)
  if (parts.length === 0) return rows
  const texts = parts.map((part) => part.toString())
  for (let row = 0; row < rows.length; row++) {
    rows[row] = texts[numbers.readUInt16BE(row * 2) - 1] ?? null
  }
  return rows
}
