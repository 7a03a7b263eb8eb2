import { randomBytes } from 'node:crypto'
import { decodeTime, ulid } from 'ulid'

/** What an id begins with: of jobs, organizations, people, webhook endpoints and requests. */
type Kind = 'job' | 'org' | 'per' | 'we' | 'req'

/** The characters of a ULID after those of the time. */
const RANDOM_CHARACTERS = 16

/** A new id: its kind, `_`, and a ULID in lower case, which begins with the time. */
export function newId (kind: Kind, nowMs: number): string {
  // The library would call the generator for each character, which takes ten times as long.
  const random = randomBytes(RANDOM_CHARACTERS)
  let used = 0
  const fraction = () => (random[used++] as number) / 256
  return `${kind}_${ulid(nowMs, fraction).toLowerCase()}`
}

/**
 * The time in an id, in milliseconds.
 * @throws Error for a text that is not an id.
 */
export function timeOfId (id: string): number {
  return decodeTime(id.slice(id.indexOf('_') + 1).toUpperCase())
}
