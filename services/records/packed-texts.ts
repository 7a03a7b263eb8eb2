/** Texts of rows: each different one once, and for each row the number of its text in two bytes. */
export type PackedTexts = { readonly numbers: Buffer, readonly texts: readonly string[] }

/** As the scripts of the cache read it: numbers count from 1. */
export function packTexts (rows: readonly string[]): PackedTexts {
  const known = new Map<string, number>()
  const numbers = Buffer.allocUnsafe(rows.length * 2)
  for (const [row, text] of rows.entries()) {
    const number = known.get(text) ?? known.size + 1
    known.set(text, number)
    numbers.writeUInt16BE(number, row * 2)
  }
  return { numbers, texts: [...known.keys()] }
}

/** What such a script answered: the text of each row, of which the alike are one; null for none. */
export function unpackTexts (reply: unknown): readonly (string | null)[] {
  const [numbers, parts] = reply as readonly [Buffer, readonly Buffer[]]
  const texts = parts.map((part) => part.toString())
  return Array.from({ length: numbers.length / 2 }, (_, row) =>
    texts[numbers.readUInt16BE(row * 2) - 1] ?? null)
}
