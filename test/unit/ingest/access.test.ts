import { expect, it } from 'vitest'
import { WORKSPACE_KEY } from '../../../services/accounts/key-store.ts'
import { cursorOf } from '../../../services/ingest/results-response.ts'
import { routesOf } from '../../../services/ingest/routes.ts'
import {
  application, closedJob, doubles, JOB_ID, KEY_ID, MANIFEST, outage, settings,
} from './doubles.ts'

const nameOf = ({ method, url }: { readonly method: unknown, readonly url: string }) =>
  `${String(method)} ${url}`
const results = `/jobs/${JOB_ID}/results`
const found = {
  readJob: async () => closedJob(),
  findArchived: async () => ({ job: closedJob(), manifest: MANIFEST }),
}

it('every route that changes or downloads something has an action in the access log', () => {
  const routes = routesOf(doubles(), settings)
  const needed = routes.filter(({ method, config }) =>
    method !== 'GET' || [config?.scope].flat().includes('results:read'))
  expect(needed.filter(({ config }) => config?.records === undefined).map(nameOf)).toEqual([])
  expect(routes.filter(({ config }) => config?.records === null).map(nameOf))
    .toEqual(['jobs', 'verifications', 'quotes'].map(name => `POST /api/v1/${name}`))
})

it('a download of results is recorded with its key and its result', async () => {
  const { get, calls } = application(found)
  expect((await get(results)).statusCode).toBe(200)
  const entry = {
    organization: 'org_01',
    actor: { kind: 'key', id: KEY_ID },
    action: 'results.downloaded',
    target: JOB_ID,
    address: '127.0.0.1',
    details: { mode: 'live' },
    entryId: expect.any(String) as string,
  }
  const entries = ['attempted', 'done'].map(outcome => ({ ...entry, outcome }))
  expect(calls.recorded).toEqual(entries)
  await get(`${results}?format=json&limit=1`)
  await get(`${results}?format=json&limit=1&cursor=${cursorOf(1)}`)
  await get(`/jobs/${JOB_ID}`)
  expect(calls.recorded).toEqual([...entries, ...entries])
})

it('a page by a cursor is recorded unless the key has an entry for the job', async () => {
  const { get, calls } = application(found)
  const other = `${JOB_ID.slice(0, -1)}9`
  for (const job of [JOB_ID, JOB_ID, other]) {
    const page = `/jobs/${job}/results?format=json&cursor=${cursorOf(0)}`
    expect((await get(page)).statusCode).toBe(200)
  }
  expect(calls.recorded.filter(({ outcome }) => outcome === 'done').map(({ target }) => target))
    .toEqual([JOB_ID, other])
})

it('a cursor in the query of another request hides nothing', async () => {
  const { app, get, calls } = application(found)
  await get(results)
  for (const url of [`/jobs/${JOB_ID}/cancel`, '/webhook-endpoints/we_1/rotate-secret']) {
    await app.inject({
      method: 'POST', url: `/api/v1${url}?cursor=1`, headers: { authorization: 'Bearer live' },
    })
  }
  expect(calls.recorded.map(({ action, outcome }) => `${action} ${outcome}`)).toEqual([
    'results.downloaded attempted', 'results.downloaded done',
    'job.cancelled attempted', 'job.cancelled refused',
    'webhook_endpoint.secret_rotated attempted', 'webhook_endpoint.secret_rotated refused',
  ])
})

it('a page by a cursor is not taken for one of a download that was refused', async () => {
  const { get, calls } = application()
  const page = `${results}?format=json&cursor=${cursorOf(0)}`
  for (const path of [results, page]) expect((await get(path)).statusCode).not.toBe(200)
  expect(calls.recorded.map(({ outcome }) => outcome))
    .toEqual(['attempted', 'refused'])
})

it('a download is refused with 503 when its entry is not stored', async () => {
  const read: string[] = []
  const { get } = application({
    findArchived: async (_tenant, job) => {
      read.push(job)
      return undefined
    },
    accessLog: { append: async () => { throw outage }, withdraw: async () => false },
  })
  const answer = await get(results)
  expect([answer.statusCode, answer.json<{ error: { code: string } }>().error.code])
    .toEqual([503, 'temporarily_unavailable'])
  expect(read).toEqual([])
})

it('a request without the right is recorded as refused', async () => {
  const { get, calls } = application()
  expect((await get(results, { key: 'writer' })).statusCode).toBe(403)
  expect((await get(results, { key: 'revoked' })).statusCode).toBe(401)
  expect(calls.recorded).toMatchObject([{ action: 'results.downloaded', outcome: 'refused' }])
})

it('requests of the workspace page and submissions of jobs are not recorded', async () => {
  const { get, post, calls } = application({
    ...found,
    findKey: async () => ({
      kind: 'ok',
      key: {
        org: 'org_01',
        tenant: 'org_01.live',
        mode: 'live',
        scopes: ['jobs:read', 'jobs:write'],
        keyId: WORKSPACE_KEY,
      },
    }),
  })
  expect((await get(results)).statusCode).toBe(200)
  expect((await post({ service: 'phone-validation', inputs: ['1'] })).statusCode).toBe(202)
  expect(calls.recorded).toEqual([])
})
