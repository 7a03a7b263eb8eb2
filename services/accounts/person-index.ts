import { createHash } from 'node:crypto'
import { globalKey } from '../platform/redis.ts'

/** What finds the organizations of a person: their address, and later their sign-in. */
export type IndexedPerson = {
  /** In lower case. */
  readonly email: string
  /** The account at the sign-in provider; '' before the first sign-in. */
  readonly issuer: string
  readonly subject: string
}

/** Field of `org:<id>`: its people, as JSON. */
export const PEOPLE_FIELD = 'people'

const keyOf = (...parts: readonly string[]) =>
  globalKey(`people:${createHash('sha256').update(JSON.stringify(parts)).digest('hex')}`)

/** Set of the organizations that may have a person with an address. */
export const addressKey = (email: string) => keyOf('address', email)

/** Set of the organizations that may have a person with an account at a sign-in provider. */
export const accountOfProviderKey = (issuer: string, subject: string) =>
  keyOf('account', issuer, subject)

/** The keys of all sets that list the people in a stored field; none for an absent one. */
export function indexKeysIn (people: string | undefined): readonly string[] {
  if (people === undefined) return []
  return (JSON.parse(people) as readonly IndexedPerson[]).flatMap(({ email, issuer, subject }) =>
    [addressKey(email), ...issuer === '' ? [] : [accountOfProviderKey(issuer, subject)]])
}
