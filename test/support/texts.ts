import fc from 'fast-check'

const SURROGATES = { from: 0xd800, count: 0x800 } as const

/** Any character of Unicode; fast-check's own `binary` takes most of a second to be set up. */
const character = fc.nat(0x10ffff - SURROGATES.count).map(number =>
  String.fromCodePoint(number < SURROGATES.from ? number : number + SURROGATES.count))

/** Texts of any characters at all. */
export const unicodeText = (maxLength?: number): fc.Arbitrary<string> =>
  fc.string({ unit: character, ...maxLength !== undefined && { maxLength } })
