import { Type, type Static } from 'typebox'
import { MAX_CONTACT_CHARACTERS } from './create-job.ts'
import { Count, withExample } from './parts.ts'

/** What an organization wants for the contacts of an entry. */
export const LIST_ACTIONS = ['allow', 'block', 'suppress'] as const

export type ListAction = typeof LIST_ACTIONS[number]

/** What an entry may be about. */
export const ENTRY_KINDS = ['address', 'domain', 'tld', 'mx', 'number', 'prefix'] as const

/** The most entries of an organization, of one change, and of one look-up. */
export const MAX_LIST_ENTRIES = 1_000_000
export const MAX_CHANGED_ENTRIES = 100_000
const MAX_LOOKED_UP = 1_000

/** The body of POST /api/v1/contact-lists. */
export const ChangeListsSchema = Type.Object({
  action: Type.Enum([...LIST_ACTIONS, 'remove'], {
    description: 'allow: rows are valid without a check, reason allow_listed. block, suppress: ' +
      'they are invalid without a check, reasons block_listed and suppressed. remove: the ' +
      'entries are removed.',
  }),
  entries: Type.Array(Type.String({ minLength: 1, maxLength: MAX_CONTACT_CHARACTERS }), {
    minItems: 1,
    maxItems: MAX_CHANGED_ENTRIES,
    description: 'Each is an address, a domain (with its subdomains), a top-level domain such as ' +
      '.xyz, a mail server such as mx:mail.example.com (with those below it), a number in ' +
      'international format, or its beginning with a star, such as +4930*.',
  }),
}, {
  title: 'ContactListChange',
  additionalProperties: false,
  examples: [{
    action: 'suppress', entries: ['jane@example.com', 'example.org', '+4930*'],
  }],
})
export type ChangeListsBody = Static<typeof ChangeListsSchema>

/** The query of POST /api/v1/contact-lists/file. */
export const ListFileQuerySchema = Type.Object({
  action: Type.Optional(Type.Enum([...LIST_ACTIONS, 'remove'], {
    description: 'What to do with all entries of the file, whatever its column list says.',
  })),
}, { additionalProperties: false })
export type ListFileQuery = Static<typeof ListFileQuerySchema>

const countSchema = Type.Integer({ minimum: 0 })

/** The answer to GET and POST /api/v1/contact-lists. */
export const ContactListsSchema = Type.Object({
  entries: Count('The entries that there are.'),
  maxEntries: Count('The entries that there may be.'),
  lists: Type.Object({
    allow: countSchema, block: countSchema, suppress: countSchema,
  }, { description: 'The entries of each list.' }),
}, {
  title: 'ContactLists',
  examples: [{
    entries: 3, maxEntries: MAX_LIST_ENTRIES, lists: { allow: 0, block: 1, suppress: 2 },
  }],
})
export type ContactListsBody = Static<typeof ContactListsSchema>

/** The body of POST /api/v1/contact-lists/lookups. */
export const LookUpSchema = Type.Object({
  contacts: Type.Array(Type.String({ minLength: 1, maxLength: MAX_CONTACT_CHARACTERS }), {
    minItems: 1,
    maxItems: MAX_LOOKED_UP,
    description: 'Addresses, numbers in international format, or other entries.',
  }),
}, {
  title: 'ContactListLookUp',
  additionalProperties: false,
  examples: [{ contacts: ['jane@example.com', 'joe@example.net'] }],
})
export type LookUpBody = Static<typeof LookUpSchema>

/** What the lists say of contacts, in their order. */
export const LookedUpSchema = Type.Object({
  data: Type.Array(Type.Object({
    contact: Type.String(),
    action: withExample(Type.Unsafe<ListAction | null>({
      enum: [...LIST_ACTIONS, null], description: 'null if no entry is about the contact.',
    }), 'suppress'),
  })),
}, {
  title: 'ContactListAnswer',
  examples: [{
    data: [
      { contact: 'jane@example.com', action: 'suppress' },
      { contact: 'joe@example.net', action: null },
    ],
  }],
})
export type LookedUpBody = Static<typeof LookedUpSchema>
