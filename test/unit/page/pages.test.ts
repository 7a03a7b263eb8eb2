import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { EVENT_TYPES } from '../../../schemas/api/webhooks.ts'
import type { UsageGroup } from '../../../schemas/api/account.ts'
import type { Journal } from '../../../schemas/types.ts'
import { ApiError } from '../../../services/client/client.ts'
import {
  attemptLike, nonceIn, openPage, ORGANIZATION, recordingClient, textOf,
} from '../../support/page/page-doubles.ts'
import { writeTexts } from '../../../services/money/entry-reason.ts'
import { acceptedJob, entryOf } from '../../support/stage-messages.ts'
import { NO_USAGE } from '../ingest/doubles.ts'

const { id: orgId } = ORGANIZATION

beforeEach(() => { vi.useFakeTimers({ toFake: ['Date'] }) })
afterEach(() => { vi.useRealTimers() })

describe('the page of API keys', () => {
  const open = async () => {
    const page = openPage()
    return { ...page, ...await page.signIn('owner') }
  }

  it('creates one key per form, with the chosen values, and shows its secret once', async () => {
    const { deps, get, send, actor } = await open()
    const form = {
      nonce: nonceIn(await get('/live/keys')),
      scope: ['jobs:read', 'results:read', 'constructor'],
      days: '30',
      name: 'Nightly <import>',
      networks: '192.0.2.0/24 2001:db8::/32',
    }
    const [secret = ''] = /vj_live_\w{36}/.exec((await send('/live/keys', form)).body) ?? []
    expect((await send('/live/keys', form)).headers.location).toBe('/live/keys?notice=key-once')
    const [key, ...more] = await deps.apiKeys.list(orgId)
    expect([more, key]).toMatchObject([[], {
      mode: 'live',
      scopes: ['jobs:read', 'results:read'],
      networks: ['192.0.2.0/24', '2001:db8::/32'],
      createdBy: actor.id,
      name: 'Nightly <import>',
    }])
    expect((key?.expiresAtMs ?? 0) - (key?.createdAtMs ?? 0)).toBe(30 * 86_400_000)
    const { body } = await get('/live/keys')
    expect([secret.length, body.includes(secret)]).toEqual([44, false])
    expect(body).toContain('Nightly &lt;import&gt;')
    expect(body).toContain('>owner@example.com</span>')
    expect((await get('/test/keys')).body).not.toContain('Nightly')
  })

  it.each([
    [{}, 'Go back and choose at least one.'],
    [{ scope: 'jobs:read', days: '1000' }, 'The form could not be read.'],
    [{ scope: 'jobs:read', networks: 'mars' }, '"mars" is not an IP address or network'],
  ])('rejects the form %o', async (form, text) => {
    const { deps, send } = await open()
    const { statusCode, body } = await send('/live/keys', { nonce: 'n', ...form })
    expect([statusCode, textOf(body).replaceAll('&quot;', '"')])
      .toEqual([400, expect.stringContaining(text)])
    expect(await deps.apiKeys.list(orgId)).toEqual([])
  })

  it('creates the key of a form that was refused, and is sent again corrected', async () => {
    const { deps, get, send } = await open()
    const form = { nonce: nonceIn(await get('/live/keys')), scope: 'jobs:read', networks: 'mars' }
    for (const time of ['first', 'second']) {
      expect([time, (await send('/live/keys', form)).statusCode]).toEqual([time, 400])
    }
    const corrected = { ...form, networks: '192.0.2.1' }
    expect((await send('/live/keys', corrected)).body).toMatch(/vj_live_\w{36}/)
    expect((await send('/live/keys', corrected)).headers.location).toContain('key-once')
    expect(await deps.apiKeys.list(orgId)).toHaveLength(1)
  })

  it('rolls and revokes active keys of its mode only', async () => {
    const { deps, get, send } = await open()
    const create = async (mode: 'live' | 'test') => await deps.apiKeys.create({
      orgId, mode, scopes: ['jobs:read'], name: '', createdBy: '',
    })
    const key = await create('live')
    const form = { nonce: nonceIn(await get(`/live/keys/${key.id}/roll`)), hours: '24' }
    expect((await send(`/live/keys/${key.id}/roll`, form)).body).toMatch(/vj_live_\w{36}/)
    expect((await send(`/live/keys/${key.id}/roll`, form)).headers.location)
      .toBe('/live/keys?notice=key-once')
    const old = (await deps.apiKeys.list(orgId)).find(({ id }) => id === key.id)
    expect((old?.expiresAtMs ?? 0) - Date.now()).toBe(24 * 3_600_000)
    await send(`/live/keys/${key.id}/revoke`)
    for (const id of [key.id, (await create('test')).id, 'key_none']) {
      for (const action of ['roll', 'revoke']) {
        expect((await get(`/live/keys/${id}/${action}`)).statusCode).toBe(404)
        expect((await send(`/live/keys/${id}/${action}`)).statusCode).toBe(404)
      }
    }
  })
})

it('the page of settings accepts a freshness from 0 to 90 days only', async () => {
  const { deps, signIn } = openPage()
  const { send } = await signIn()
  for (const [days, status] of [['0', 303], ['90', 303], ['91', 400], ['', 400], ['1.5', 400]]) {
    const answer = await send('/live/settings/freshness', { days: String(days) })
    expect([days, answer.statusCode]).toEqual([days, status])
  }
  expect((await deps.organizations.find(orgId))?.policy.freshnessDays).toBe(90)
})

describe('the page of webhooks', () => {
  const endpoint = {
    id: 'we_1',
    url: 'https://hooks.example.com/<in>',
    events: ['*'],
    description: 'mine & yours',
    enabled: true,
    livemode: true,
    createdAt: '2026-11-21T12:00:00.000Z',
    updatedAt: '2026-11-21T12:00:00.000Z',
  }
  const attempt = attemptLike({ outcome: 'exhausted', statusCode: 500, reason: 'status' })

  /** A signed-in browser, and the calls that change endpoints. */
  async function browse () {
    const { calls, client } = recordingClient({
      createWebhookEndpoint: { ...endpoint, secret: 'whsec_new' },
      updateWebhookEndpoint: endpoint,
      deleteWebhookEndpoint: { id: 'we_1', deleted: true },
      rotateWebhookEndpointSecret: { ...endpoint, secret: 'whsec_next' },
    })
    const page = openPage({
      client: {
        ...client,
        webhookEndpoints: async () => [endpoint],
        webhookEndpoint: async () => endpoint,
        endpointDeliveries: async function * () { for (;;) yield attempt },
      },
    })
    return { calls, ...page, ...await page.signIn() }
  }

  it('creates an endpoint per form, with its secret', async () => {
    const { get, send, calls } = await browse()
    const page = await get('/live/webhooks')
    expect(page.body).toContain('hooks.example.com/&lt;in&gt;')
    for (const type of EVENT_TYPES) expect(page.body).toContain(`value="${type}"`)
    const form = {
      nonce: nonceIn(page),
      url: ' https://hooks.example.com/in ',
      description: 'mine',
      event: ['job.failed', 'constructor'],
    }
    expect((await send('/live/webhooks', form)).body).toContain('whsec_new')
    expect((await send('/live/webhooks', form)).headers.location)
      .toBe('/live/webhooks?notice=endpoint-once')
    expect(calls).toEqual([['createWebhookEndpoint', {
      url: 'https://hooks.example.com/in', events: ['job.failed'], description: 'mine',
    }]])
  })

  it('creates the endpoint of a form that was refused, but not twice if nobody knows', async () => {
    const statuses = [409, 503]
    const refusal = () => {
      const status = statuses.shift()
      if (status === undefined) return { ...endpoint, secret: 'whsec_new' }
      throw new ApiError(new Response(null, { status }), '{"error":{"code":"x","message":"y"}}')
    }
    const { send } = await openPage({ client: { createWebhookEndpoint: refusal } }).signIn()
    const form = { nonce: 'n', url: 'https://a.example/', event: 'job.failed' }
    expect((await send('/live/webhooks', form)).statusCode).toBe(409)
    expect((await send('/live/webhooks', form)).statusCode).toBe(503)
    expect((await send('/live/webhooks', form)).headers.location).toContain('endpoint-once')
  })

  it('needs an event, and a known form of id', async () => {
    const { get, send, calls } = await browse()
    expect((await send('/live/webhooks', { url: 'https://a.example/' })).statusCode).toBe(400)
    expect((await get('/live/webhooks/we_1%2f..')).statusCode).toBe(404)
    for (const action of ['delete', 'enabled', 'secret']) {
      expect((await send(`/live/webhooks/x/${action}`)).statusCode).toBe(404)
    }
    expect(calls).toEqual([])
  })

  it('shows the latest deliveries of an endpoint with its actions', async () => {
    const { get, send, calls } = await browse()
    const page = await get('/live/webhooks/we_1')
    expect(page.body.match(/href="\/live\/jobs\/job_1"/g)).toHaveLength(50)
    const rotated = await send('/live/webhooks/we_1/secret', { nonce: nonceIn(page) })
    expect(rotated.body).toContain('whsec_next')
    await send('/live/webhooks/we_1/enabled', { enabled: 'false' })
    expect((await send('/live/webhooks/we_1/delete')).headers.location)
      .toBe('/live/webhooks?notice=endpoint-deleted')
    expect(calls).toEqual([
      ['rotateWebhookEndpointSecret', 'we_1'],
      ['updateWebhookEndpoint', 'we_1', { enabled: false }], ['deleteWebhookEndpoint', 'we_1'],
    ])
  })

  it('sets and removes the threshold of a low balance, in live mode as test jobs are free',
    async () => {
      const { deps, get, send } = await browse()
      const thresholds: unknown[] = []
      for (const usd of ['12.50', '-1', '']) {
        const { statusCode } = await send('/live/webhooks/low-balance', { usd })
        const { body } = await get('/live/webhooks')
        thresholds.push([statusCode, /below (\$\d+\.\d+)/.exec(body)?.[1]])
      }
      expect(thresholds).toEqual([[303, '$12.5000'], [400, '$12.5000'], [303, undefined]])
      expect((await deps.organizations.find(orgId))?.policy.lowBalanceMicros).toBeUndefined()
      expect((await get('/test/webhooks')).body).not.toContain('Low balance')
    })
})

describe('the page of usage', () => {
  const group = (
    day: string, service: string, key: string | null, totalRows: number
  ): UsageGroup => ({
    ...NO_USAGE,
    day,
    service,
    key,
    jobs: 1,
    totalRows,
    verdicts: { ...NO_USAGE.verdicts, [service === 'whatsapp' ? 'valid' : 'invalid']: totalRows },
    freshRecords: totalRows / 2,
    cacheHits: 1,
    chargedMicros: totalRows * 1_000,
  })
  const usage = {
    from: '2026-08-10T00:00:00.000Z',
    to: '2026-08-12T10:00:00.000Z',
    group_by: ['day', 'service', 'key'],
    data: [
      group('2026-08-10', 'whatsapp', 'key_1', 10), group('2026-08-10', 'telegram', null, 4),
      group('2026-08-12', 'whatsapp', 'key_1', 2),
    ],
    total: { ...NO_USAGE, jobs: 3, totalRows: 16, chargedMicros: 16_000 },
  }

  it('asks for the chosen days, and offers the same as a file', async () => {
    const { calls, client } = recordingClient({ usage, usageFile: 'day\r\n' })
    const { get } = await openPage({ client }).signIn()
    expect((await get('/live/usage?days=7')).body).toContain('aria-current="page">7 days</a>')
    const file = await get('/live/usage.csv?days=8000')
    expect([file.body, file.headers['content-disposition']])
      .toEqual(['day\r\n', 'attachment; filename="usage.csv"'])
    const from = (days: number) =>
      new Date(Date.now() - (days - 1) * 86_400_000).toISOString().slice(0, 10)
    expect(calls).toEqual([['usage', from(7)], ['usageFile', from(30)]].map(([name, date]) =>
      [name, { from: date, group_by: 'day,service,key' }]))
  })

  it('has charts of verdicts and charges by day, and the sums as tables', async () => {
    const { signIn } = openPage({ client: { usage: async () => usage } })
    const { body } = await (await signIn()).get('/live/usage')
    const charts = [...body.matchAll(/data-chart="([^"]+)"/g)]
      .map(([, data = '']) => JSON.parse(data.replaceAll('&quot;', '"')))
    const days = ['2026-08-10', '2026-08-11', '2026-08-12']
    // A day without a job is there, with nothing.
    expect(charts).toMatchObject([
      {
        unit: 'rows',
        days,
        series: [
          { name: 'Valid', values: [10, 0, 2] }, { name: 'Risky', values: [0, 0, 0] },
          { name: 'Invalid', values: [4, 0, 0] }, { name: 'Unknown', values: [0, 0, 0] },
        ],
      },
      { unit: 'usd', days, series: [{ name: 'Charged', values: [0.014, 0, 0.002] }] },
    ])
    expect(body).toContain('aria-label="Verdicts by day from 2026-08-10 to 2026-08-12."')
    const text = textOf(body)
    expect(text).toContain('3 jobs, 16 rows, $0.0160 charged')
    for (const line of [
      '2026-08-12 1 2 2 0 0 0 1 1 $0.0020 2026-08-10 2 14 10 0 4 0 7 2 $0.0140',
      'whatsapp 2 12 12 0 0 0 6 2 $0.0120', 'key_1 2 12 12 0 0 0 6 2 $0.0120',
      'Unknown 1 4 0 0 4 0 2 1 $0.0040',
    ]) expect(text).toContain(line)
  })
})

describe('the pages of money', () => {
  const balance = {
    balanceMicros: 3_000, reservedMicros: 1_000, availableMicros: 2_000, currency: 'USD',
  }
  const movement = (more: Partial<Journal>): Journal => ({
    ...entryOf('org_1.live', acceptedJob()),
    seq: 2,
    job: '',
    amountMicros: 10_000,
    chargeMicros: 4_000,
    availableMicros: 6_000,
    reservedMicros: 0,
    at: 0,
    reason: 'secret',
    ...more,
  })
  const open = async (log: readonly Journal[]) => {
    const reads: unknown[] = []
    const page = openPage({
      client: { balance: async () => balance },
      deps: {
        journal: {
          readNewest: async (tenant, range) => {
            reads.push([tenant, range])
            return log.slice(0, range.limit)
          },
        },
      },
    })
    return { ...page, ...await page.signIn(), reads }
  }

  it('list every movement, and jobs by links for those who may see them', async () => {
    const types = ['topup', 'adjust', 'reserve', 'void', 'else'].map(type => movement({ type }))
    const noted = ['topup', 'adjust'].map(type =>
      movement({ type, reason: writeTexts({ reason: 'secret', note: 'for you' }) }))
    const { read, signIn } =
      await open([movement({ type: 'settle', job: 'job_1' }), ...types, ...noted])
    const text = await read('/live/balance')
    expect(text).not.toContain('secret')
    expect(text).toContain('Job settled, rest released job_1 +$0.0060 $0.0040 $0.0060')
    expect([...text.matchAll(/00:00:00 ([A-Z]?[a-z- :]+[a-z])/g)].map(([, label]) => label))
      .toEqual([
        'Job settled, rest released', 'Top-up', 'Correction', 'Reserved for a job',
        'Reservation released', 'else', 'Top-up: for you', 'Correction: for you',
      ].map(label => label.split(',')[0]))
    const { body } = await (await signIn('finance')).get('/live/balance')
    expect(body).toContain('<span class="id">job_1</span>')
  })

  it('read the movements of the mode page by page', async () => {
    const log = Array.from({ length: 51 }, (_, at) => movement({ type: 'topup', seq: 60 - at }))
    const { get, reads } = await open(log)
    const { body } = await get('/live/balance')
    expect([body.match(/Top-up/g)?.length, /before=\d+/.exec(body)?.[0]]).toEqual([50, 'before=11'])
    log.splice(0, 1)
    expect((await get('/test/balance?before=11')).body).not.toContain('Older')
    expect(reads).toEqual([
      ['org_1.live', { limit: 51, before: undefined }], ['org_1.test', { limit: 51, before: 11 }],
    ])
  })
})

describe('the page of people', () => {
  it('lists them with whether they have signed in, escaped', async () => {
    const { deps, signIn } = openPage()
    const { read } = await signIn('owner')
    await deps.people.add(orgId, { email: "o'<b>@example.com", role: 'finance', createdBy: 'me' })
    expect(await read('/live/people')).toMatch(
      /owner@example\.com \(you\) owner Has not signed in .+ o&#39;&lt;b&gt;@example\.com finance/)
    await deps.people.membershipsOf({ issuer: 'i', subject: 's', email: 'owner@example.com' })
    expect(await read('/live/people')).toContain('Has signed in')
  })

  it('keeps strangers and the last owner, and ends the sessions of one person', async () => {
    const { deps, signIn } = openPage()
    const { get, send } = await signIn('owner')
    const { actor: { id } } = await signIn('finance')
    expect((await send(`/live/people/${id}/sign-out`)).headers.location)
      .toBe('/live/people?notice=person-signed-out')
    expect(await deps.people.find(orgId, id)).toMatchObject({ role: 'finance', generation: 1 })
    expect((await get('/live/people/per_none')).statusCode).toBe(404)
    expect((await send('/live/people/per_none/remove')).statusCode).toBe(404)
    const form = { email: 'x@example.com', role: 'king' }
    expect((await send('/live/people', form)).statusCode).toBe(400)
    await send('/live/people', { ...form, role: 'read-only' })
    const [owner, , added] = await deps.people.list(orgId)
    expect(added).toMatchObject({ role: 'read-only', createdBy: 'owner@example.com' })
    const refused = await send(`/live/people/${owner?.id}/remove`)
    expect([refused.statusCode, textOf(refused.body)])
      .toEqual([400, expect.stringContaining('This is the last owner of the organization')])
  })
})
