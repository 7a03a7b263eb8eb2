import { randomFillSync } from 'node:crypto'
import { decodeTime, ulid } from 'ulid'

/** What an id begins with: of jobs, organizations, people, webhook endpoints and requests. */
type Kind = 'job' | 'org' | 'per' | 'we' | 'req'

/** A new id: its kind, `_`, and a ULID in lower case, which begins with the time. */
export function newId (kind: Kind, nowMs: number): string {
  return `${kind}_${ulid(nowMs, randomFraction).toLowerCase()}`
}

/**
 * The time in an id, in milliseconds.
 * @throws Error for a text that is not an id.
 */
export function timeOfId (id: string): number {
  return decodeTime(id.slice(id.indexOf('_') + 1).toUpperCase())
}

/** A ULID takes 16 random bytes one by one, and each call of the generator some microseconds. */
const random = new Uint8Array(4_096)
let used = random.length

function randomFraction (): number {
  if (used === random.length) {
    randomFillSync(random)
    used = 0
  }
  return (random[used++] as number) / 256
}
