/** The name with the highest weight, the first of equals; undefined if all weights are 0. */
export function highestWeighted<T extends string> (
  names: readonly T[], weigh: (name: T) => number
): T | undefined {
  const weights = names.map(weigh)
  const highest = Math.max(...weights)
  return highest > 0 ? names[weights.indexOf(highest)] : undefined
}

/**
 * The weight of a coding in an Accept-Encoding header, 0 if it is not allowed or there is no
 * header. `unnamed`: whether `*` includes a coding that is not listed.
 */
export function weightOfCoding (
  header: string | undefined, coding: string, unnamed: boolean
): number {
  // A recipient considers x-gzip equivalent to gzip (RFC 9110, 8.4.1.3).
  const names = coding === 'gzip' ? ['gzip', 'x-gzip'] : [coding]
  return mostSpecificWeight(header ?? '', unnamed ? [...names, '*'] : names)
}

/** The weight of the most specific name that a header lists, 0 if it lists none. */
export function mostSpecificWeight (header: string, names: readonly string[]): number {
  const weights = new Map(header.split(',').map(weighted))
  const listed = names.find(name => weights.has(name))
  return listed === undefined ? 0 : weights.get(listed) ?? 0
}

function weighted (item: string): [name: string, weight: number] {
  const [name = '', ...parameters] = item.split(';').map(part => part.trim().toLowerCase())
  const weight = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
  return [name, weight === undefined ? 1 : Number(weight) || 0]
}

/** Whether an If-None-Match header lists an entity tag. */
export function listsTag (header: string | undefined, tag: string): boolean {
  const tags = (header ?? '').split(',').map(text => text.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(tag)
}
