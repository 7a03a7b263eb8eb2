import { afterEach, describe, expect, it } from 'vitest'
import type { FastifyInstance } from 'fastify'
import { ApiError } from '../../../../../services/client/client.ts'
import { createPage } from '../../../../../services/workspace/page/app.ts'
import type { PageParts } from '../../../../../services/workspace/page/context.ts'
import { noticeIn } from '../../../../../services/workspace/page/notices.ts'
import { idsIn } from '../../../../../services/workspace/page/routes/jobs.ts'
import { updateOf } from '../../../../../services/workspace/page/routes/live.ts'
import { jobIn } from '../../../../../services/workspace/page/routes/upload.ts'
import {
  createPageParts, ended, jobLike, ORGANIZATION,
} from '../../../../support/page-parts.ts'

const opened: FastifyInstance[] = []
afterEach(async () => { await Promise.all(opened.splice(0).map(app => app.close())) })

/** A signed-in browser: reads pages, and sends forms as they stand on them. */
async function browse (client: object, more: Partial<PageParts> = {}) {
  const parts = createPageParts(client, more)
  const app = createPage({ parts, trustedProxies: [] })
  opened.push(app)
  const { id, session } = await parts.sessions.begin({ kind: 'customer', orgId: ORGANIZATION.id })
  const headers = { cookie: `session=${id}`, host: 'h', origin: 'http://h' }
  return {
    get: (url: string) => app.inject({ url, headers }),
    send: (url: string, form: [string, string][]) => app.inject({
      method: 'POST',
      url,
      headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded' },
      payload: String(new URLSearchParams([['form_token', session.token], ...form])),
    }),
    script: (url: string, body: object) => app.inject({
      method: 'POST', url, headers: { ...headers, 'x-form-token': session.token }, payload: body,
    }),
  }
}

const refusal = (status: number, code: string, message: string) => async () => {
  throw new ApiError(new Response(null, { status }), JSON.stringify({ error: { code, message } }))
}

describe('keys', () => {
  const made: object[] = []
  const apiKeys = {
    create: async (key: object) => {
      made.push(key)
      return { id: 'key_1', secret: 'vj_live_new' }
    },
    list: async () => [],
    revoke: async () => true,
    roll: async () => undefined,
  }

  it('are made once a form, with what was chosen', async () => {
    const { get, send } = await browse({}, { apiKeys })
    const [, mark = ''] = /name="once" value="([\w-]+)"/.exec((await get('/live/keys')).body) ?? []
    const form: [string, string][] = [['once', mark], ['scope', 'jobs:read'], ['days', '30']]
    const first = await send('/live/keys', form)
    expect([first.statusCode, first.body]).toEqual([200, expect.stringContaining('vj_live_new')])
    const again = await send('/live/keys', form)
    expect([again.statusCode, again.headers.location])
      .toEqual([303, '/live/keys?notice=key-once'])
    expect(made).toHaveLength(1)
    expect(made[0]).toMatchObject({ orgId: 'org_1', mode: 'live', scopes: ['jobs:read'] })
    expect(made[0]).toHaveProperty('expiresAtMs')
  })

  it('need a scope, and a key that is there', async () => {
    const { get, send } = await browse({}, { apiKeys })
    const answer = await send('/live/keys', [['once', 'x']])
    expect([answer.statusCode, answer.body]).toEqual([400, expect.stringContaining('choose')])
    expect((await get('/live/keys/key_2/revoke')).statusCode).toBe(404)
    expect((await send('/live/keys/key_2/revoke', [])).statusCode).toBe(404)
  })
})

describe('settings', () => {
  it('take days from 0 to 90 and nothing else', async () => {
    const { send } = await browse({})
    for (const [days, status] of [['0', 303], ['90', 303], ['91', 400], ['', 400], ['1.5', 400]]) {
      const answer = await send('/live/settings/freshness', [['days', String(days)]])
      expect([days, answer.statusCode]).toEqual([days, status])
    }
  })
})

describe('a job', () => {
  it('shows why it is not there', async () => {
    const { get } = await browse({ job: refusal(404, 'job_not_found', 'x') })
    const answer = await get('/live/jobs/job_1')
    expect([answer.statusCode, answer.body])
      .toEqual([404, expect.stringContaining('There is no such page')])
    expect((await get('/live/jobs/job_1%2Fresults')).statusCode).toBe(404)
    expect(idsIn({ id: 'job_1', delivery: 'evt_1' })).toEqual({ id: 'job_1', delivery: 'evt_1' })
    expect(() => idsIn({ id: '../keys' })).toThrow('not_found')
  })

  it('is shown without results that are not kept any more', async () => {
    const { get } = await browse({
      job: async () => jobLike(ended),
      resultsPage: refusal(410, 'results_expired', 'x'),
      deliveries: async () => [],
    })
    const answer = await get('/live/jobs/job_1')
    expect([answer.statusCode, answer.body])
      .toEqual([200, expect.stringContaining('are not kept any more')])
  })

  it('tells of its progress as it goes', async () => {
    const states = [jobLike(), jobLike({ progressPercent: 80 }), jobLike(ended)]
    const pausesMs: number[] = []
    const sleep = async (ms: number) => { pausesMs.push(ms) }
    const { get } = await browse({ job: async () => states.shift() }, { sleep })
    const { body, headers } = await get('/live/live?view=job&job=job_1')
    expect(headers['content-type']).toBe('text/event-stream; charset=utf-8')
    const updates = body.trim().split('\n\n').map(text => JSON.parse(text.slice('data: '.length)))
    expect(pausesMs).toEqual([500, 500])
    expect(updates.map(({ done }) => done)).toEqual([false, false, true])
    expect(updates.map(({ say }) => say)).toEqual(['', '', 'job_1: Completed.'])
    expect(Object.keys(updates[0].parts)).toEqual(['state-job_1', 'breakdown-job_1'])
    expect(updates[1].parts['state-job_1']).toContain('80 %')
  })

  it('tells of several jobs by one request, and no more once the session has ended', async () => {
    const asked: string[] = []
    const parts = createPageParts()
    const { get } = await browse({
      jobsPage: async () => ({ data: [jobLike(), jobLike({ id: 'job_2' })] }),
      job: async (id: string) => {
        asked.push(id)
        return jobLike({ id })
      },
    }, { sessions: { ...parts.sessions, isThere: async () => false }, sleep: async () => {} })
    const { body } = await get('/live/live?view=list&job=job_1&job=job_2&job=job_3')
    expect(body.trim().split('\n\n')).toHaveLength(1)
    expect(body).toContain('state-job_2')
    expect(asked).toEqual(['job_3'])
  })

  it('changes nothing on the page where nothing changed', () => {
    const known = new Map()
    expect(updateOf([jobLike()], known, false)?.parts).toHaveProperty('state-job_1')
    expect(updateOf([jobLike()], known, false)).toBeUndefined()
  })
})

describe('what is done to a job', () => {
  it('is asked of the interface and told on the page', async () => {
    const asked: unknown[] = []
    const note = (status: string) => async (...ids: string[]) => {
      asked.push(ids)
      return { status }
    }
    const { send } = await browse({ cancel: note('cancelling'), resend: note('queued') })
    const places = [
      (await send('/live/jobs/job_1/cancel', [])).headers.location,
      (await send('/live/jobs/job_1/deliveries/evt_1/resend', [])).headers.location,
    ]
    expect(places)
      .toEqual(['/live/jobs/job_1?notice=cancelled', '/live/jobs/job_1?notice=resent'])
    expect(asked).toEqual([['job_1'], ['job_1', 'evt_1']])
  })
})

describe('a file', () => {
  it('becomes a job of what was chosen and no more', () => {
    const body = { service: 's', inputs: ['1'], country: ' us ', fresh: 1, file: 'a.csv', x: 1 }
    expect(jobIn({ body })).toEqual({
      service: 's',
      inputs: ['1'],
      forceFresh: false,
      countryCode: 'us',
      metadata: { file: 'a.csv' },
    })
    expect(jobIn({ body: { service: 's', inputs: ['1'], webhook: 'https://x', fresh: true } }))
      .toEqual({ service: 's', inputs: ['1'], forceFresh: true, webhook_url: 'https://x' })
    for (const wrong of [null, { service: 's' }, { service: 's', inputs: [1] }]) {
      expect(() => jobIn({ body: wrong })).toThrow('bad_form')
    }
    expect(() => jobIn({ body: { service: 's', inputs: [] } })).toThrow('too_large')
  })

  it('is not sent on without an id of its own, and faults are told in words', async () => {
    const { script } = await browse({
      createJob: refusal(402, 'insufficient_balance', 'Top up the balance.'),
    })
    const job = { service: 's', inputs: ['1'] }
    expect((await script('/live/upload/job', { ...job, id: 'x' })).statusCode).toBe(400)
    const id = '5f0c3f43-7a51-4f1a-9c39-6a1f6d3f5a10'
    const answer = await script('/live/upload/job', { ...job, id })
    expect([answer.statusCode, answer.json().fault.message]).toEqual([402, 'Top up the balance.'])
  })
})

describe('a notice', () => {
  it('is one of those that are known, never a text of the address', () => {
    const notice = (query: object) => noticeIn({ query } as never)?.html
    expect(notice({ notice: 'resent' })).toContain('on its way')
    expect([notice({ notice: '<b>' }), notice({ notice: 'constructor' }), notice({})])
      .toEqual([undefined, undefined, undefined])
  })
})
