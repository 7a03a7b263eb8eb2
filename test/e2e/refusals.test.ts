import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createOrganizationWith } from '../support/organizations.ts'
import { startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => { world = await startWorld() })
afterAll(async () => { await world.stop() })

type Problem = {
  readonly error: { readonly code: string, readonly message: string, readonly request_id: string } &
    Readonly<Record<string, unknown>>
}
type Sent = {
  readonly key?: string
  readonly body?: unknown
  readonly raw?: string | Buffer
  readonly headers?: Record<string, string>
}

async function post ({ key = world.keys.live, body, raw, headers = {} }: Sent) {
  const response = await fetch(`${world.baseUrl}/jobs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: raw ?? JSON.stringify(body),
  })
  const problem = await response.json() as Problem
  return { status: response.status, headers: response.headers, body: problem }
}

const good = { service: 'phone-validation', inputs: ['+12127365000'] }

type Case = Sent & { readonly what: string, readonly status: number, readonly code: string }

const CASES: readonly Case[] = [
  { what: 'not JSON', raw: '{"service":', status: 400, code: 'invalid_json' },
  {
    what: 'not UTF-8',
    raw: Buffer.from([0x22, 0xff, 0xfe, 0x22]),
    status: 400,
    code: 'invalid_encoding',
  },
  { what: 'a wrong type', body: { ...good, inputs: 12 }, status: 400, code: 'invalid_request' },
  {
    what: 'a word for a boolean',
    body: { ...good, forceFresh: 'true' },
    status: 400,
    code: 'invalid_request',
  },
  {
    what: 'an unknown field',
    body: { ...good, force_fresh: true },
    status: 400,
    code: 'invalid_request',
  },
  { what: 'no input', body: { ...good, inputs: [] }, status: 400, code: 'invalid_request' },
  {
    what: 'too many inputs',
    body: { ...good, inputs: Array(100_001).fill('+1') },
    status: 400,
    code: 'too_many_inputs',
  },
  {
    what: 'an unknown service',
    body: { ...good, service: 'fax' },
    status: 400,
    code: 'unknown_service',
  },
  {
    what: 'a service without provider',
    body: { ...good, service: 'whatsapp' },
    status: 400,
    code: 'service_not_configured',
  },
  {
    what: 'an unknown country',
    body: { ...good, countryCode: 'XX' },
    status: 400,
    code: 'invalid_country_code',
  },
  { what: 'a key that is none', body: good, key: 'nonsense', status: 401, code: 'invalid_key' },
  {
    what: 'an odd Idempotency-Key',
    body: good,
    headers: { 'idempotency-key': '7' },
    status: 400,
    code: 'invalid_idempotency_key',
  },
  {
    what: 'another content type',
    body: good,
    headers: { 'content-type': 'text/plain' },
    status: 415,
    code: 'unsupported_media_type',
  },
]

describe('a request that cannot be served', () => {
  it.each(CASES)('$what', async ({ what: _what, status, code, ...sent }) => {
    const answer = await post(sent)
    expect([answer.status, answer.body.error.code]).toEqual([status, code])
    expect(answer.body.error.message).toMatch(/\w+/)
    expect(answer.headers.get('x-request-id')).toBe(answer.body.error.request_id)
  })

  it('names the balance it needs and reserves nothing', async () => {
    const poor = await createOrganizationWith(world.env, { availableMicros: 0 })
    const answer = await post({ key: poor.keys.live, body: good })
    expect(answer.status).toBe(402)
    expect(answer.body.error).toMatchObject({ code: 'insufficient_balance', availableMicros: 0 })
    expect(answer.body.error.requiredMicros).toBeGreaterThan(0)
    expect(await poor.balance()).toMatchObject({ availableMicros: 0, reservedMicros: 0 })
  })

  it('is told apart by scope', async () => {
    const reader = await createOrganizationWith(world.env, {
      availableMicros: 1_000_000, scopes: ['jobs:read'],
    })
    expect((await post({ key: reader.keys.live, body: good })).body.error.code)
      .toBe('insufficient_scope')
  })

  it('learns nothing of the jobs of others', async () => {
    const other = await createOrganizationWith(world.env, { availableMicros: 1_000_000 })
    const { id } = await world.live.createJob(good)
    const ask = async (path: string, key: string) => {
      const headers = { authorization: `Bearer ${key}` }
      const answer = await fetch(`${world.baseUrl}${path}`, { headers })
      const { error } = await answer.json() as Problem
      return [answer.status, error.code, error.message]
    }
    const theirs = await ask(`/jobs/${id}`, other.keys.live)
    const nobodys = await ask(`/jobs/${id.slice(0, -4)}0000`, other.keys.live)
    expect(theirs).toEqual(nobodys)
    expect(theirs[0]).toBe(404)
  })
})

describe('an Idempotency-Key', () => {
  it('gives one job and equal answers to fifty requests at once', async () => {
    const key = randomUUID()
    const headers = { 'idempotency-key': key }
    const requests = Array.from({ length: 50 }, () => post({ body: good, headers }))
    const answers = await Promise.all(requests)
    expect(new Set(answers.map(answer => JSON.stringify(answer.body))).size).toBe(1)
    expect(answers.map(answer => answer.status)).toEqual(Array(50).fill(202))
    const replayed = answers.filter(answer => answer.headers.get('idempotent-replayed') === 'true')
    expect(replayed.length).toBe(49)
  })

  it('is refused for another body', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    await post({ body: good, headers })
    const answer = await post({ body: { ...good, countryCode: 'US' }, headers })
    expect([answer.status, answer.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  })
})

describe('results', () => {
  it('asked for too early are announced for later', async () => {
    const slow = { service: 'phone-validation', inputs: ['+12127360004'] }
    const { id } = await world.test.createJob(slow)
    const headers = { authorization: `Bearer ${world.keys.test}` }
    const answer = await fetch(`${world.baseUrl}/jobs/${id}/results`, { headers })
    const { error } = await answer.json() as Problem
    expect([answer.status, error.code]).toEqual([409, 'job_not_completed'])
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await world.test.waitForEnd(id)).status).toBe('completed')
  })
})
