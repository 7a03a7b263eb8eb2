import { createHmac } from 'node:crypto'
import { type MessageKeySettings, subkeysOf } from '../runtime/crypto/mac.ts'
import { globalKey } from '../runtime/platform/redis.ts'

/** What finds the organizations of a person: their address, and later their sign-in. */
export type IndexedPerson = {
  /** In lower case. */
  readonly email: string
  /** The account at the sign-in provider; '' before the first sign-in. */
  readonly issuer: string
  readonly subject: string
}

/** Field of `org:<id>`: the digests of its people, as JSON. `ledger` copies it without a key. */
export const PEOPLE_INDEX_FIELD = 'peopleIndex'

export type PersonIndex = ReturnType<typeof createPersonIndex>

/**
 * Finds people by digests. The topic `accounts` keeps them when an organization is erased, and a
 * plain hash of an address could be guessed, so they are HMACs with a key derived from a message
 * key: from the oldest one when stored, from each one when searched, because a new key may have an
 * id that sorts before the others.
 */
export function createPersonIndex (messageKeys: MessageKeySettings['MESSAGE_KEYS']) {
  const keys = subkeysOf(messageKeys, 'people')
  const digestsOf = (...parts: readonly string[]) => keys.map(key =>
    createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex'))
  const ofAddress = (email: string) => digestsOf('address', email)
  const ofAccount = (issuer: string, subject: string) => digestsOf('account', issuer, subject)
  return {
    /** The sets of the organizations that may have a person with this account or address. */
    keysOf: ({ email, issuer, subject }: IndexedPerson): readonly string[] =>
      [...ofAccount(issuer, subject), ...email === '' ? [] : ofAddress(email)].map(setOf),

    /** The value of the field for people. */
    fieldOf: (people: readonly IndexedPerson[]): string =>
      JSON.stringify(people.flatMap(({ email, issuer, subject }) =>
        [ofAddress(email)[0], ...issuer === '' ? [] : [ofAccount(issuer, subject)[0]]])),
  }
}

const setOf = (digest: string) => globalKey(`people:${digest}`)

/** The keys of all sets that list an organization with this field; none for an absent one. */
export const indexKeysIn = (field = '[]'): readonly string[] =>
  (JSON.parse(field) as readonly string[]).map(setOf)
