export type Random = () => number

export const pick = <T>(from: readonly T[], random: Random): T =>
  from[Math.floor(random() * from.length)] as T

/** A copy with one bit changed; of nothing, one byte. */
export function flipped (bytes: Buffer | null, random: Random): Buffer {
  const copy = Buffer.from(bytes ?? [0])
  const at = Math.floor(random() * copy.length)
  copy[at] = (copy[at] ?? 0) ^ (1 << Math.floor(random() * 8))
  return copy
}

type Damage = (bytes: Buffer, other: Buffer, random: Random) => Buffer

/** Invalid UTF-8, an encoded surrogate, a byte order mark, NUL, and lengths of Avro without end. */
const ODD_BYTES = ['ff', 'c080', 'eda080', 'efbbbf', '00', 'fffffffff1', '8080808080808080']

const DAMAGES: readonly Damage[] = [
  (bytes, _other, random) => flipped(bytes, random),
  (bytes, _other, random) => bytes.subarray(0, Math.floor(random() * bytes.length)),
  (bytes, other, random) => {
    const at = Math.floor(random() * bytes.length)
    return Buffer.concat([bytes.subarray(0, at), other.subarray(at)])
  },
  (bytes, _other, random) => {
    const at = Math.floor(random() * bytes.length)
    const odd = Buffer.from(pick(ODD_BYTES, random), 'hex')
    return Buffer.concat([bytes.subarray(0, at), odd, bytes.subarray(at)])
  },
  (bytes, _other, random) => {
    const from = Math.floor(random() * bytes.length)
    return Buffer.concat([bytes, bytes.subarray(from)])
  },
]

/** The bytes with one random damage; `other` is what a splice takes its end from. */
export function damaged (bytes: Buffer, other: Buffer, random: Random): Buffer {
  return pick(DAMAGES, random)(bytes, other, random)
}

/** From 1 to 100,000, each order of magnitude equally often. */
const someSize = (random: Random) => Math.floor(10 ** (5 * random()))

const listOf = (length: number, item: (index: number) => string) =>
  Array.from({ length }, (_, index) => item(index)).join()

/** JSON, or nearly, that no client of the interface sends in this place. */
const ODD_TEXTS: readonly ((size: number) => string)[] = [
  ...[
    'null', 'true', '-0', '1e999', '-1e-999', '9007199254740993', '01', 'NaN', '""', '[]', '{}',
    '"\\ud800"', '"\\u0000"', '"\\x"', '"__proto__"', '"constructor"', '{"__proto__":1}',
    '{"a":1,"a":2}', '"a":1,"\\u0061":2', '"inputs":[]', "'", '\\', ',', ':', '/**/', '"',
  ].map(text => () => text),
  size => '['.repeat(size) + ']'.repeat(size),
  size => '[{"a":'.repeat(size),
  size => '{"a":'.repeat(size) + '1' + '}'.repeat(size),
  size => `"${'x'.repeat(size)}"`,
  size => `"${'\\"'.repeat(size)}"`,
  size => `"${'é'.repeat(size)}":1`,
  size => ' '.repeat(size),
  size => '9'.repeat(size),
  size => `{${listOf(size, index => `"k${index}":1`)}}`,
  size => `[${listOf(size, () => '{}')}]`,
  size => listOf(Math.min(size, 2_500), index => `"x${index}"`),
]

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g
/** Of so many bodies one has bytes damaged as well. */
const DAMAGED_EVERY = 3

/** A body whose tokens are replaced, removed, repeated, swapped or mixed with odd ones. */
export function mutatedBody (bodies: readonly string[], random: Random): Buffer {
  const tokens = pick(bodies, random).match(TOKEN) ?? []
  const changes = 1 + Math.floor(3 * random())
  for (let change = 0; change < changes; change += 1) changeTokens(tokens, random)
  const body = Buffer.from(tokens.join(''))
  const isDamaged = Math.floor(DAMAGED_EVERY * random()) === 0
  return isDamaged ? damaged(body, Buffer.from(pick(bodies, random)), random) : body
}

function changeTokens (tokens: string[], random: Random): void {
  const at = Math.floor(tokens.length * random())
  const other = Math.floor(tokens.length * random())
  const odd = () => pick(ODD_TEXTS, random)(someSize(random))
  const changes = [
    () => tokens.splice(at, 1, odd()),
    () => tokens.splice(at, 0, odd()),
    () => tokens.splice(at, 1),
    () => tokens.splice(at, 0, ...tokens.slice(other, other + 4)),
    () => tokens.splice(at, 1, tokens[other] ?? ''),
  ]
  pick(changes, random)()
}
