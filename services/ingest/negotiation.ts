/** Whether an Accept header lets an answer of this media type through; no header accepts all. */
export function accepts (header: string | undefined, mediaType: string): boolean {
  if (header === undefined || header.trim() === '') return true
  return weightOf(header, mediaType) > 0
}

/** The media type an Accept header likes most, the first of equals; undefined if it likes none. */
export function preferred (
  header: string | undefined, mediaTypes: readonly string[]
): string | undefined {
  if (header === undefined || header.trim() === '') return mediaTypes[0]
  return mostLiked(mediaTypes, name => weightOf(header, name))
}

/** What has the largest weight, the first of equals; undefined where none has any. */
export function mostLiked<T extends string> (
  names: readonly T[], weigh: (name: T) => number
): T | undefined {
  const weights = names.map(weigh)
  const most = Math.max(...weights)
  return most > 0 ? names[weights.indexOf(most)] : undefined
}

/**
 * How much an Accept-Encoding header likes a coding, 0 for not at all; no header likes none.
 * `unnamed`: whether a coding that it does not name is meant by `*`.
 */
export function weightOfCoding (
  header: string | undefined, coding: string, unnamed: boolean
): number {
  return best(header ?? '', unnamed ? [coding, '*'] : [coding])
}

function weightOf (header: string, mediaType: string): number {
  const [type] = mediaType.split('/')
  return best(header, [mediaType, `${type}/*`, '*/*'])
}

/** The weight of the most specific of `names` that the header lists, 0 when it lists none. */
function best (header: string, names: readonly string[]): number {
  const weights = new Map(header.split(',').map(weighted))
  const listed = names.find(name => weights.has(name))
  return listed === undefined ? 0 : weights.get(listed) ?? 0
}

function weighted (item: string): [name: string, weight: number] {
  const [name = '', ...parameters] = item.split(';').map(part => part.trim().toLowerCase())
  const weight = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
  return [name, weight === undefined ? 1 : Number(weight) || 0]
}
