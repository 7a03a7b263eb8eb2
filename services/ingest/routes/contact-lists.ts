import type { RouteOptions } from 'fastify'
import {
  type ChangeListsBody, ChangeListsSchema, type ContactListsBody, ContactListsSchema,
  LookedUpSchema, type LookUpBody, LookUpSchema, MAX_LIST_ENTRIES,
} from '../../../schemas/api/contact-lists.ts'
import { MAX_BODY_BYTES } from '../../../schemas/api/create-job.ts'
import { ERROR_RESPONSES } from '../../../schemas/api/error.ts'
import { describeAccess } from '../../accounts/access-log/requests.ts'
import { ListChangesError, ListEntryError, ListsFullError } from '../../accounts/contact-lists.ts'
import type { FairPool } from '../../runtime/platform/limits.ts'
import { reserveMemory } from '../body.ts'
import type { Settings } from '../config.ts'
import type { ApiError } from '../errors.ts'
import { callerOf } from '../guard.ts'
import type { IngestDeps } from '../ports.ts'
import { sendError } from '../response.ts'

const ADDRESS = '/api/v1/contact-lists'
const tags = ['Contact lists']

const bodyOf = (entries: number): ContactListsBody => ({ entries, maxEntries: MAX_LIST_ENTRIES })

/** GET /api/v1/contact-lists: how many entries the lists of the caller's organization have. */
export function getListsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: ADDRESS,
    config: {
      scope: 'jobs:read',
      produces: 'application/json',
      sample: {
        client: () => [
          'const { entries, maxEntries } = await client.contactLists()',
          'console.log(entries, maxEntries)',
        ],
      },
    },
    schema: {
      operationId: 'getContactLists',
      summary: 'Count the entries of the contact lists',
      description: 'The allow, block and suppression lists of the organization, which hold for ' +
        'live and test keys. Only digests of entries are stored, so they cannot be listed.',
      tags,
      response: { 200: ContactListsSchema, ...ERROR_RESPONSES },
    },
    handler: async (request, reply) =>
      reply.send(bodyOf(await deps.contactLists.count(callerOf(request).org))),
  }
}

/** POST /api/v1/contact-lists: adds, changes or removes entries. */
export function changeListsRoute (
  deps: IngestDeps, settings: Settings, budget: FairPool
): RouteOptions {
  return {
    method: 'POST',
    url: ADDRESS,
    bodyLimit: MAX_BODY_BYTES,
    config: {
      scope: 'jobs:write',
      produces: 'application/json',
      takesBody: true,
      errors: ['contact_lists_full'],
      records: 'contact_lists.changed',
      sample: {
        bodies: ['suppress'],
        client: body => [
          `const { entries } = await client.changeContactLists(${body})`,
          'console.log(entries)',
        ],
      },
    },
    schema: {
      operationId: 'changeContactLists',
      summary: 'Add entries to the contact lists, or remove them',
      description: 'Jobs that are posted two seconds later follow them. Of several entries about ' +
        'a contact the most specific decides: the address or number, else the longest domain or ' +
        'beginning. Rows that they decide are not checked and free. The request can be repeated.',
      tags,
      body: ChangeListsSchema,
      response: { 200: ContactListsSchema, ...ERROR_RESPONSES },
    },
    ...reserveMemory(budget, settings.bodyThroughput),
    handler: async (request, reply) => {
      const { action, entries } = request.body as ChangeListsBody
      describeAccess(request, { details: { action, entries: String(entries.length) } })
      try {
        const count = await deps.contactLists.change(callerOf(request).org, entries, action)
        return await reply.send(bodyOf(count))
      } catch (error) {
        return sendError(reply, faultOf(error, 'entries'))
      }
    },
  }
}

/** POST /api/v1/contact-lists/lookups: what the lists say of contacts. */
export function lookUpRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'POST',
    url: `${ADDRESS}/lookups`,
    config: {
      scope: 'jobs:write',
      produces: 'application/json',
      takesBody: true,
      records: null,
      sample: {
        bodies: ['contacts'],
        client: body => [
          `for (const { contact, action } of await client.lookUpContacts(${body})) {`,
          '  console.log(contact, action)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'lookUpContacts',
      summary: 'See what the contact lists say of contacts',
      description: 'For each contact the action of the entry that decides, or null.',
      tags,
      body: LookUpSchema,
      response: { 200: LookedUpSchema, ...ERROR_RESPONSES },
    },
    handler: async (request, reply) => {
      const { contacts } = request.body as LookUpBody
      try {
        const actions = await deps.contactLists.lookUp(callerOf(request).org, contacts)
        return await reply.send({
          data: contacts.map((contact, index) => ({ contact, action: actions[index] ?? null })),
        })
      } catch (error) {
        return sendError(reply, faultOf(error, 'contacts'))
      }
    },
  }
}

/** Rethrows what is no fault of the request. */
function faultOf (error: unknown, field: string): ApiError {
  if (error instanceof ListEntryError) {
    return { code: 'invalid_request', message: error.message, param: `${field}[${error.index}]` }
  }
  if (error instanceof ListChangesError) {
    const { message, retryAfterSeconds } = error
    return { code: 'rate_limited', message, retryAfterSeconds }
  }
  if (error instanceof ListsFullError) return { code: 'contact_lists_full', message: error.message }
  throw error
}
