import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import { describe, expect, it } from 'vitest'
import { OrganizationErasedError } from '../../../services/accounts/organization-keys.ts'
import type { IngestDeps } from '../../../services/ingest/deps.ts'
import { type ErrorCode, ERRORS } from '../../../services/ingest/errors.ts'
import { LostResultsError, MissingResultsError } from '../../../services/jobs/results/results.ts'
import { NotSubmittedError } from '../../../services/jobs/submit.ts'
import { FatalError } from '../../../services/runtime/platform/errors.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { deriveEventId } from '../../../services/webhooks/event.ts'
import { expectProtectedAnswers } from '../../support/early-answers.ts'
import {
  application, closedJob, createTestApp, doubles, good, JOB_ID, jobOf, listen, outage, settings,
} from './doubles.ts'

type BadBody =
  readonly [what: string, body: unknown, code: string, param: string, message: string]

/** With the texts of their errors: other bodies are those of `test/e2e/bad-input/`. */
const BAD_BODIES: readonly BadBody[] = [
  ['an id with half of a surrogate pair', { ...good, inputs: ['1', { input: '1', id: '\ud800' }] },
    'invalid_request', 'inputs[1].id',
    'inputs[1].id has half of a surrogate pair, which is no character. Remove it.'],
  ['an unknown field beside an id', { ...good, inputs: ['1', { input: '1', id: '1', x: '' }] },
    'invalid_request', 'inputs[1].x', 'inputs[1].x is not a field of this request. Leave it ' +
    'out; there are: input, id.'],
  ['inputs of five fields', { ...good, inputs: [{ input: '1', id: '', a: 1, b: 1, c: 1 }] },
    'invalid_request', 'inputs[0]', 'The objects up to inputs[0] have more than 4 different ' +
    'fields. Leave out those that the request does not have.'],
  ['100,001 inputs', { ...good, inputs: Array(100_001).fill('1') }, 'too_many_inputs', 'inputs',
    'A job has at most 100,000 inputs. Split it into several jobs.'],
  ['a deadline over two days', { ...good, deadline: 172_801 }, 'invalid_request', 'deadline',
    'deadline must be a whole number from 60 to 172,800.'],
  ['a name of 41', { ...good, metadata: { ['k'.repeat(41)]: 'v' } }, 'invalid_request', 'metadata',
    'metadata has a key of more than 40 characters. Shorten it.'],
  ['a name to escape', { ...good, metadata: { 'a/b~c': 1 } }, 'invalid_request',
    'metadata.a/b~c', 'metadata.a/b~c must be a text in quotes.'],
]

describe('a body that cannot be a job', () => {
  const { post, calls } = application({}, { bodyBudgetBytes: 40_000_000 })

  it.each(BAD_BODIES)('%s', async (...[, body, code, param, message]) => {
    const answer = await post(body)
    const { error } = answer.json()
    expect([answer.statusCode, error]).toEqual([400, {
      type: 'invalid_request', code, param, message, request_id: answer.headers['x-request-id'],
    }])
    expect(calls.submissions).toEqual([])
  })
})

describe('an invalid query gets an error that says what to do', () => {
  const { get } = application()

  it.each([
    ['/jobs?metadata=x', 'metadata is sent with a name in brackets: metadata[name]=value.'],
    ['/jobs?limit=ten', 'limit must be a whole number from 1 to 100.'],
    ['/jobs?after=a&after=b', 'after was sent more than once. Send it once.'],
    ['/jobs?state=completed',
      'state is not a parameter of this request. Leave it out; there are: limit, after, status, ' +
      'service, created_from, created_to, metadata.'],
    ['/jobs?created_from=today', 'created_from is not valid. It is: A date (UTC) like ' +
      '2026-08-11, or a timestamp like 2026-08-11T10:00:00Z, in which the + of an offset is ' +
      'encoded as %2B: only jobs created from then on.'],
    [`/jobs?${Array.from({ length: 11 }, (_, at) => `metadata[${at}]=x`).join('&')}`,
      'metadata has too many entries. Send at most 10.'],
    ['/usage?from=2026-08-01&to=2026-07-01', 'from must be before to.'],
    ['/usage?from=2024-01-01&to=2026-01-01', 'from must be at most 366 days before "to".'],
    ['/usage?group_by=week', 'group_by is not valid. It is: One or more of day (of the ' +
      'creation, UTC), service and key (of the request), separated by commas.'],
    [`/jobs/${JOB_ID}/results?status=valid,`,
      'status[1] must be one of: valid, invalid, risky, unknown.'],
    [`/jobs/${JOB_ID}/results?country=US,UK`,
      'country[1] is not valid. It is: An ISO 3166-1 code of two letters, such as US.'],
    [`/jobs/${JOB_ID}/results?columns=row,input,row`, 'columns has a value twice. Send each once.'],
    [`/jobs/${JOB_ID}/results?status=valid&status=risky`,
      'status was sent more than once. Send it once, with commas between its values.'],
  ])('%s', async (path, message) => {
    const { error } = (await get(path)).json()
    expect([error.code, error.message]).toEqual(['invalid_request', message])
    expect(message.startsWith(error.param)).toBe(true)
  })
})

/** The outcome of a socket on which something failed. */
function socketAfter (code: string, writable = true): readonly string[] {
  const calls: string[] = []
  const socket = {
    writable,
    on: () => {},
    once: (_event: string, closed: () => void) => { closed() },
    end: (text: string) => { calls.push(text) },
    destroy: () => { calls.push('destroyed') },
  }
  const { server } = createTestApp({ deps: doubles(), settings })
  server.emit('clientError', Object.assign(new Error(code), { code }), socket as unknown as Socket)
  return calls
}

describe('a failure on the bare socket', () => {
  it('is answered in the form of all errors', () => {
    const [answer = ''] = socketAfter('ERR_HTTP_REQUEST_TIMEOUT')
    const id = /^x-request-id: (req_\w{26})\r$/m.exec(answer)?.[1]
    const body = '{"error":{"type":"invalid_request","code":"request_timeout","message":"The ' +
      `request did not arrive in time. Send it again.","request_id":"${id}"}}`
    expect(answer).toBe([
      'HTTP/1.1 408 Request Timeout',
      'content-type: application/json; charset=utf-8',
      `x-request-id: ${id}`,
      'api-version: 2026-08-11',
      `content-length: ${body.length}`,
      'cache-control: no-store',
      'x-content-type-options: nosniff',
      'connection: close',
      '',
      body,
    ].join('\r\n'))
  })

  it('is answered with 400 if it has no other status', () => {
    expect(socketAfter('HPE_INVALID_METHOD')[0]).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
  })
})

/** An application that logs errors. */
function logging (more: Partial<IngestDeps>) {
  const lines: string[] = []
  const destination = { write: (line: string) => { lines.push(line) } }
  const log = createLog('ingest', { level: 'error', destination }) as FastifyBaseLogger
  return { app: createTestApp({ deps: doubles(more), settings, log }), lines }
}
const headers = { authorization: 'Bearer live' }

it('an answer before all hooks is neither stored nor interpreted', async () => {
  const app = createTestApp({ deps: doubles(), settings })
  await expectProtectedAnswers(await listen(app))
})

describe('a failure in a handler', () => {
  it.each([
    [outage, 503, 'temporarily_unavailable', '2'],
    [new Error('secret +12127365000'), 500, 'internal', '0'],
    [new LostResultsError('no key'), 410, 'results_expired', '0'],
    [new OrganizationErasedError('org_1'), 401, 'revoked_key', '0'],
    [new MissingResultsError('no block'), 500, 'internal', '0'],
    [Object.assign(new Error('no such path'), { code: 'FST_ERR_BAD_URL' }), 404, 'not_found', '0'],
  ] as const)('%s is answered with %i', async (error, status, code, retryAfter) => {
    const { get } = application({ readRecentJob: () => Promise.reject(error) })
    const answer = await get(`/jobs/${JOB_ID}/results`)
    expect([answer.statusCode, answer.json().error.code, answer.headers['retry-after']])
      .toEqual([status, code, retryAfter])
    expect(answer.body).not.toContain('secret')
  })

  it('without a data key is answered with 503, and logs each cause once a minute', async () => {
    const lost = new FatalError('RESULTS_ROOT_KEYS lacks key "1", which wraps a key in use')
    const causes: Error[] = [lost, lost, outage]
    const fail = () => Promise.reject(
      new NotSubmittedError('cannot make a key', { cause: causes.shift() }))
    const { app, lines } = logging({ submit: fail })
    for (const path of ['jobs', 'verifications', 'quotes']) {
      const answer = await app.inject({
        method: 'POST', url: `/api/v1/${path}`, headers, payload: good,
      })
      expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '5'])
      expect(answer.json().error).toMatchObject({
        type: 'unavailable',
        code: 'temporarily_unavailable',
        message: expect.stringContaining('This request created no job, and nothing was reserved'),
      })
    }
    expect(lines.map(line => JSON.parse(line))).toMatchObject([lost, outage].map(
      ({ name: type, message }) => ({
        level: 50,
        msg: 'jobs and quotes are refused',
        err: { type: 'NotSubmittedError', cause: { type, message } },
      })))
  })

  it('is logged with route, status, code and job, and no path, query or text of a client',
    async () => {
      const { app, lines } = logging({ readRecentJob: () => Promise.reject(outage) })
      await app.inject({ url: `/api/v1/jobs/${JOB_ID}?phone=+12127365000`, headers })
      const logged = {
        msg: 'request failed', method: 'GET', status: 503, code: 'temporarily_unavailable',
      }
      expect(lines.map(line => JSON.parse(line)))
        .toMatchObject([{ ...logged, route: '/api/v1/jobs/:id', job: JOB_ID }])
      expect(lines[0]).not.toMatch(/12127365000/)
    })
})

it.each(Object.keys(ERRORS) as ErrorCode[])('the table of errors says what to do: %s', code => {
  const [status, , message] = ERRORS[code]
  expect(status).toBeGreaterThanOrEqual(400)
  expect(message).toMatch(/^[A-Z].*\.$|^(countryCode|webhook_url) .*\.$/)
})

const EVENT = deriveEventId(JOB_ID, 'job.completed')

/** As ClickHouse's client throws it when a part file was cut off by a full disk. */
const cut = Object.assign(new Error('Cannot read all data.'),
  { code: '33', type: 'CANNOT_READ_ALL_DATA' })
const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
const readOnly = Object.assign(new Error("READONLY You can't write against a read only replica."),
  { name: 'ReplyError' })

/** Fails as a promise and as a stream, after these pieces. */
function failing (error: Error, ...pieces: readonly string[]) {
  async function * stream () {
    yield * pieces
    throw error
  }
  const failed = Promise.reject(error)
  failed.catch(() => {})
  return () => Object.assign(stream(), { then: failed.then.bind(failed) }) as never
}

type Case = readonly [part: keyof IngestDeps, line: string, more?: Partial<IngestDeps>]

/** The failing store, the request that reveals it, and what is known of the job before. */
const CASES: readonly Case[] = [
  ['findKey', 'GET /jobs'],
  ['openJobs', 'GET /jobs'],
  ['listArchived', 'GET /jobs'],
  ['openHeader', 'GET /jobs', { openJobs: async () => [jobOf()] }],
  ['readRecentJob', `GET /jobs/${JOB_ID}`],
  ['findArchived', `GET /jobs/${JOB_ID}`, { readRecentJob: async () => undefined }],
  ['openHeader', `GET /jobs/${JOB_ID}`],
  ['cancel', `POST /jobs/${JOB_ID}/cancel`],
  ['findErasures', `GET /jobs/${JOB_ID}`],
  ['findErasures', `GET /jobs/${JOB_ID}/results`],
  ['erase', `DELETE /jobs/${JOB_ID}`],
  ['findArchived', `GET /jobs/${JOB_ID}/results`],
  ['rows', `GET /jobs/${JOB_ID}/results?format=json`],
  ['rows', `GET /jobs/${JOB_ID}/results?format=jsonl`],
  ['csvStream', `GET /jobs/${JOB_ID}/results`],
  ['listAttempts', `GET /jobs/${JOB_ID}/deliveries`],
  ['listAttempts', `POST /jobs/${JOB_ID}/deliveries/${EVENT}/resend`],
  ['findDelivery', `POST /jobs/${JOB_ID}/deliveries/${EVENT}/resend`],
  ['balance', 'GET /balance'],
  ['usage', 'GET /usage'],
  ['transactions', 'GET /transactions'],
  ['submit', 'POST /quotes'],
  ['submit', 'POST /jobs'],
]

describe('a store failure is reported as temporary', () => {
  async function answered (line: string, more: Partial<IngestDeps>) {
    const [method = '', path = ''] = line.split(' ')
    const { send } = application({
      readRecentJob: async () => closedJob(),
      findArchived: async () => ({ job: closedJob(), manifest: [] }),
      openHeader: async () => ({ metadata: {}, webhookUrl: 'https://hooks.example.com/in' }),
      ...more,
    })
    const body = /^POST .(jobs|quotes)$/.test(line) ? good : undefined
    const answer = await send(method, path, { body })
    return [answer.statusCode, answer.json().error.code, Number(answer.headers['retry-after']) >= 1]
  }

  const cases = CASES.map(([part, line, more]) => ({ part, line, more }))
  it.each(cases)('$part of $line', async ({ part, line, more }) => {
    for (const error of [cut, refused, readOnly]) {
      expect(await answered(line, { ...more, [part]: failing(error) }))
        .toEqual([503, 'temporarily_unavailable', true])
    }
    expect(await answered(line, { ...more, [part]: failing(new TypeError('a bug')) }))
      .toEqual([500, 'internal', false])
  })

  it('between the first line of CSV and the first row', async () => {
    const csvStream = failing(cut, 'row,input\r\n')
    expect(await answered(`GET /jobs/${JOB_ID}/results`, { csvStream }))
      .toEqual([503, 'temporarily_unavailable', true])
  })
})
