import type { FastifyRequest, RouteOptions } from 'fastify'
import {
  type ChangeListsBody, ChangeListsSchema, type ContactListsBody, ContactListsSchema,
  type ListFileQuery, ListFileQuerySchema, LookedUpSchema, type LookUpBody, LookUpSchema,
  MAX_LIST_ENTRIES,
} from '../../../schemas/api/contact-lists.ts'
import { describeAccess } from '../../accounts/access-log/access-log.ts'
import { ListChangesError, ListEntryError, ListsFullError } from '../../accounts/contact-lists.ts'
import type { LargeBody } from '../body.ts'
import type { IngestDeps } from '../deps.ts'
import { ApiException } from '../errors.ts'
import { ListFile } from '../file.ts'
import { requireCaller } from '../guard.ts'

const ADDRESS = '/api/v1/contact-lists'
const tags = ['Contact lists']

async function readCounts (
  { contactLists }: IngestDeps, request: FastifyRequest
): Promise<ContactListsBody> {
  const lists = await contactLists.count(requireCaller(request).org)
  const entries = lists.allow + lists.block + lists.suppress
  return { entries, maxEntries: MAX_LIST_ENTRIES, lists }
}

/** GET /api/v1/contact-lists: how many entries the lists of the caller's organization have. */
export function getListsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: ADDRESS,
    config: {
      scope: 'jobs:read',
      sample: {
        client: () => [
          'const { entries, maxEntries, lists } = await client.contactLists()',
          'console.log(entries, maxEntries, lists.suppress)',
        ],
      },
    },
    schema: {
      operationId: 'getContactLists',
      summary: 'Count the entries of the contact lists',
      description: 'The allow, block and suppression lists of the organization, which hold for ' +
        'live and test keys. Only digests of entries are stored, so they cannot be listed.',
      tags,
      response: { 200: ContactListsSchema },
    },
    handler: async (request, reply) =>
      reply.send(await readCounts(deps, request)),
  }
}

/** POST /api/v1/contact-lists: adds, changes or removes entries. */
export function changeListsRoute (deps: IngestDeps, largeBody: LargeBody): RouteOptions {
  return {
    method: 'POST',
    url: ADDRESS,
    config: {
      scope: 'jobs:write',
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
      response: { 200: ContactListsSchema },
    },
    ...largeBody,
    handler: async (request, reply) => {
      const { action, entries } = request.body as ChangeListsBody
      describeAccess(request, { details: { action, entries: String(entries.length) } })
      try {
        await deps.contactLists.change(
          requireCaller(request).org, entries.map(text => ({ text, action })))
        return await reply.send(await readCounts(deps, request))
      } catch (error) {
        throw asApiException(error, 'entries')
      }
    },
  }
}

/** POST /api/v1/contact-lists/file: the same with a CSV file. */
export function changeListsFromFileRoute (deps: IngestDeps, largeBody: LargeBody): RouteOptions {
  return {
    method: 'POST',
    url: `${ADDRESS}/file`,
    config: {
      scope: 'jobs:write',
      takesFile: 'entries',
      errors: ['invalid_file', 'contact_lists_full'],
      records: 'contact_lists.changed',
      sample: {
        curl: [
          '-F file=@entries.csv',
        ],
        client: () => [
          "const file = Buffer.from('entry,list\\njane@example.com,suppress\\n')",
          'const { entries } = await client.changeContactListsFromFile(file)',
          'console.log(entries)',
        ],
      },
    },
    schema: {
      operationId: 'changeContactListsFromFile',
      summary: 'Change the contact lists by a CSV file',
      description: 'All lines are checked before the first is applied: if some cannot be used, ' +
        'the error names them, and nothing is changed. The request can be repeated.',
      tags,
      querystring: ListFileQuerySchema,
      response: { 200: ContactListsSchema },
    },
    ...largeBody,
    handler: async (request, reply) => {
      const { body: file } = request
      if (!(file instanceof ListFile)) throw new ApiException({ code: 'unsupported_media_type' })
      const { action } = request.query as ListFileQuery
      const changes = file.changes(action)
      describeAccess(request, {
        details: { action: action ?? 'file', entries: String(changes.length) },
      })
      try {
        await deps.contactLists.change(requireCaller(request).org, changes)
        return await reply.send(await readCounts(deps, request))
      } catch (error) {
        if (error instanceof ListEntryError) throw file.error(error.faults, error.count)
        throw asApiException(error, 'file')
      }
    },
  }
}

/** POST /api/v1/contact-lists/lookups: what the lists say of contacts. */
export function lookUpRoute (deps: IngestDeps, largeBody: LargeBody): RouteOptions {
  return {
    method: 'POST',
    url: `${ADDRESS}/lookups`,
    config: {
      scope: 'jobs:write',
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
      description: 'For each contact, domain, mail server or beginning of numbers the action of ' +
        'the entry that decides, or null.',
      tags,
      body: LookUpSchema,
      response: { 200: LookedUpSchema },
    },
    ...largeBody,
    handler: async (request, reply) => {
      const { contacts } = request.body as LookUpBody
      try {
        const actions = await deps.contactLists.lookUp(requireCaller(request).org, contacts)
        return await reply.send({
          data: contacts.map((contact, index) => ({ contact, action: actions[index] ?? null })),
        })
      } catch (error) {
        throw asApiException(error, 'contacts')
      }
    },
  }
}

/** The answer to a fault of the request; any other error is itself. */
function asApiException (error: unknown, field: string): unknown {
  if (error instanceof ListEntryError) {
    const param = `${field}[${error.faults[0]?.index}]`
    return new ApiException({ code: 'invalid_request', message: error.message, param })
  }
  if (error instanceof ListChangesError) {
    const { message, retryAfterSeconds } = error
    return new ApiException({ code: 'rate_limited', message, retryAfterSeconds })
  }
  return error instanceof ListsFullError
    ? new ApiException({ code: 'contact_lists_full', message: error.message })
    : error
}
