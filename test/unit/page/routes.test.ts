import { afterEach, describe, expect, it } from 'vitest'
import type { FastifyInstance } from 'fastify'
import { ApiError } from '../../../services/client/client.ts'
import { createPage } from '../../../services/page/app.ts'
import type { PageDeps } from '../../../services/page/context.ts'
import { pathIds } from '../../../services/page/jobs.ts'
import { noticeOf } from '../../../services/page/layout.ts'
import { updateOf } from '../../../services/page/live.ts'
import { uploadOf } from '../../../services/page/upload.ts'
import { createPageDeps, ended, jobLike, ORGANIZATION } from '../../support/page/page-doubles.ts'

const opened: FastifyInstance[] = []
afterEach(async () => { await Promise.all(opened.splice(0).map(app => app.close())) })

/** A signed-in browser that opens pages and submits forms. */
async function browse (client: object, more: Partial<PageDeps> = {}) {
  const deps = createPageDeps(client, more)
  const app = createPage({ deps, trustedProxies: [] })
  opened.push(app)
  const { id, session } = await deps.sessions.create({ kind: 'customer', orgId: ORGANIZATION.id })
  const headers = { cookie: `session=${id}`, host: 'h', origin: 'http://h' }
  return {
    get: (url: string) => app.inject({ url, headers }),
    send: (url: string, form: [string, string][]) => app.inject({
      method: 'POST',
      url,
      headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded' },
      payload: String(new URLSearchParams([['form_token', session.token], ...form])),
    }),
    upload: (url: string, file: string) => app.inject({
      method: 'POST',
      url,
      headers: { ...headers, 'x-form-token': session.token, 'content-type': 'text/csv' },
      payload: file,
    }),
  }
}

const refusal = (status: number, code: string, message: string) => async () => {
  throw new ApiError(new Response(null, { status }), JSON.stringify({ error: { code, message } }))
}

describe('the files of a job', () => {
  it('are all rows, or the valid ones without duplicates, safe for spreadsheets', async () => {
    const calls: unknown[] = []
    const { get } = await browse({
      resultsFile: async (...call: readonly unknown[]) => {
        calls.push(call)
        return [Buffer.from('row\r\n')]
      },
    })
    const answers = [
      await get('/live/jobs/job_1/results.csv'), await get('/live/jobs/job_1/valid.csv'),
    ]
    expect(answers.map(({ body, headers }) => [body, headers['content-disposition']])).toEqual([
      ['row\r\n', 'attachment; filename="job_1.csv"'],
      ['row\r\n', 'attachment; filename="job_1.valid.csv"'],
    ])
    expect(calls).toEqual([
      ['job_1', { safe: 'spreadsheet' }],
      ['job_1', { safe: 'spreadsheet', status: 'valid', duplicates: 'drop' }],
    ])
  })
})

describe('the page of API keys', () => {
  const created: object[] = []
  const apiKeys = {
    create: async (key: object) => {
      created.push(key)
      return { id: 'key_1', secret: 'vj_live_new', expiresAtMs: 0 }
    },
    list: async () => [],
    revoke: async () => true,
    roll: async () => undefined,
  }

  it('creates one key per form, with the chosen values', async () => {
    const { get, send } = await browse({}, { apiKeys })
    const { body } = await get('/live/keys')
    const [, nonce = ''] = /name="nonce" value="([\w-]+)"/.exec(body) ?? []
    const form: [string, string][] = [['nonce', nonce], ['scope', 'jobs:read'], ['days', '30']]
    const first = await send('/live/keys', form)
    expect([first.statusCode, first.body]).toEqual([200, expect.stringContaining('vj_live_new')])
    const again = await send('/live/keys', form)
    expect([again.statusCode, again.headers.location])
      .toEqual([303, '/live/keys?notice=key-once'])
    expect(created).toHaveLength(1)
    expect(created[0]).toMatchObject({ orgId: 'org_1', mode: 'live', scopes: ['jobs:read'] })
    expect(created[0]).toHaveProperty('expiresAtMs')
  })

  it('rejects a form without a scope, and unknown keys', async () => {
    const { get, send } = await browse({}, { apiKeys })
    const answer = await send('/live/keys', [['nonce', 'x']])
    expect([answer.statusCode, answer.body]).toEqual([400, expect.stringContaining('choose')])
    expect((await get('/live/keys/key_2/revoke')).statusCode).toBe(404)
    expect((await send('/live/keys/key_2/revoke', [])).statusCode).toBe(404)
  })
})

describe('the page of settings', () => {
  it('accepts a freshness from 0 to 90 days only', async () => {
    const { send } = await browse({})
    for (const [days, status] of [['0', 303], ['90', 303], ['91', 400], ['', 400], ['1.5', 400]]) {
      const answer = await send('/live/settings/freshness', [['days', String(days)]])
      expect([days, answer.statusCode]).toEqual([days, status])
    }
  })
})

describe('the pages of usage and erasure', () => {
  const usage = {
    from: '2026-08-10T00:00:00.000Z', to: '2026-08-11T00:00:00.000Z', data: [], total: {},
  }

  it('ask for the chosen days, and offer the same as a file', async () => {
    const asked: unknown[] = []
    const client = {
      usage: async (query: unknown) => { asked.push(query); return usage },
      usageFile: async (query: unknown) => { asked.push(query); return 'day\r\n' },
    }
    const { get } = await browse(client)
    expect((await get('/live/usage?days=7')).statusCode).toBe(200)
    const file = await get('/live/usage.csv?days=8000')
    expect([file.body, file.headers['content-disposition']])
      .toEqual(['day\r\n', 'attachment; filename="usage.csv"'])
    const from = (days: number) =>
      new Date(Date.now() - (days - 1) * 86_400_000).toISOString().slice(0, 10)
    expect(asked).toEqual([from(7), from(30)].map(date =>
      ({ from: date, group_by: 'day,service,key' })))
  })

  it('erase a job after a confirmation', async () => {
    const erased: unknown[] = []
    const { get, send } = await browse({
      job: async () => jobLike(ended),
      eraseJob: async (...given: unknown[]) => { erased.push(given) },
    })
    expect((await get('/live/jobs/job_1/erase')).body).toContain('This cannot be undone')
    expect(erased).toEqual([])
    const answer = await send('/live/jobs/job_1/erase', [['cache', 'yes']])
    expect([answer.statusCode, answer.headers.location])
      .toEqual([303, '/live/jobs/job_1?notice=erased'])
    await send('/live/jobs/job_1/erase', [])
    expect(erased).toEqual([['job_1', { cache: true }], ['job_1', { cache: false }]])
    const running = await browse({ job: async () => jobLike() })
    expect((await running.get('/live/jobs/job_1/erase')).statusCode).toBe(404)
  })
})

describe('the page of a job', () => {
  it('answers 404 for an unknown job and an invalid id', async () => {
    const { get } = await browse({ job: refusal(404, 'job_not_found', 'x') })
    const answer = await get('/live/jobs/job_1')
    expect([answer.statusCode, answer.body])
      .toEqual([404, expect.stringContaining('There is no such page')])
    expect((await get('/live/jobs/job_1%2Fresults')).statusCode).toBe(404)
    expect(pathIds({ id: 'job_1', delivery: 'evt_1' })).toEqual({ id: 'job_1', delivery: 'evt_1' })
    expect(() => pathIds({ id: 'keys' })).toThrow('not_found')
  })

  it('is shown without results when these are deleted', async () => {
    const { get } = await browse({
      job: async () => jobLike(ended),
      resultsPage: refusal(410, 'results_expired', 'x'),
      deliveries: async () => [],
    })
    const answer = await get('/live/jobs/job_1')
    expect([answer.statusCode, answer.body])
      .toEqual([200, expect.stringContaining('are deleted')])
  })

  it('receives progress until the job has ended', async () => {
    const states = [jobLike(), jobLike({ progressPercent: 80 }), jobLike(ended)]
    const pausesMs: number[] = []
    const sleep = async (ms: number) => { pausesMs.push(ms) }
    const { get } = await browse({ job: async () => states.shift() }, { sleep })
    const { body, headers } = await get('/live/live?view=job&job=job_1')
    expect(headers['content-type']).toBe('text/event-stream; charset=utf-8')
    const updates = body.trim().split('\n\n').map(text => JSON.parse(text.slice('data: '.length)))
    expect(pausesMs).toEqual([500, 500])
    expect(updates.map(({ done }) => done)).toEqual([false, false, true])
    expect(updates.map(({ announcement }) => announcement)).toEqual(['', '', 'job_1: Completed.'])
    expect(Object.keys(updates[0].elements)).toEqual(['state-job_1', 'breakdown-job_1'])
    expect(updates[1].elements['state-job_1']).toContain('80 %')
  })

  it('receives progress of several jobs with one request, until the session ends', async () => {
    const calls: string[] = []
    const deps = createPageDeps()
    const { get } = await browse({
      jobsPage: async () => ({ data: [jobLike(), jobLike({ id: 'job_2' })] }),
      job: async (id: string) => {
        calls.push(id)
        return jobLike({ id })
      },
    }, { sessions: { ...deps.sessions, exists: async () => false }, sleep: async () => {} })
    const { body } = await get('/live/live?view=list&job=job_1&job=job_2&job=job_3')
    expect(body.trim().split('\n\n')).toHaveLength(1)
    expect(body).toContain('state-job_2')
    expect(calls).toEqual(['job_3'])
  })

  it('receives no update when no job changed', () => {
    const known = new Map()
    expect(updateOf([jobLike()], known, false)?.elements).toHaveProperty('state-job_1')
    expect(updateOf([jobLike()], known, false)).toBeUndefined()
  })
})

describe('the forms of a job', () => {
  it('call the REST interface and redirect with a notice', async () => {
    const calls: unknown[] = []
    const answerWith = (status: string) => async (...ids: string[]) => {
      calls.push(ids)
      return { status }
    }
    const { send } = await browse({
      cancel: answerWith('cancelling'), resend: answerWith('queued'),
    })
    const locations = [
      (await send('/live/jobs/job_1/cancel', [])).headers.location,
      (await send('/live/jobs/job_1/deliveries/evt_1/resend', [])).headers.location,
    ]
    expect(locations)
      .toEqual(['/live/jobs/job_1?notice=cancelled', '/live/jobs/job_1?notice=resent'])
    expect(calls).toEqual([['job_1'], ['job_1', 'evt_1']])
  })
})

describe('an uploaded file', () => {
  const body = Buffer.from('name;phone\nAnn;1\n')

  it('becomes a job with the chosen values only', () => {
    const columns = { service: 's', column: '2', delimiter: ';', header: 'true' }
    const query = { ...columns, country: ' us ', fresh: 'false', file: 'a.csv', x: '1' }
    const chosen = { service: 's', column: '2', delimiter: ';', header: true }
    expect(uploadOf({ body, query })).toEqual({
      file: body,
      options: {
        ...chosen, forceFresh: false, countryCode: 'us', metadata: { file: 'a.csv' },
      },
    })
    const full = { ...query, country: '', file: '', webhook: 'https://x', fresh: 'true' }
    expect(uploadOf({ body, query: full }).options)
      .toEqual({ ...chosen, forceFresh: true, webhook_url: 'https://x' })
    expect(() => uploadOf({ body: null, query })).toThrow('bad_form')
    expect(() => uploadOf({ body, query: {} })).toThrow('bad_form')
    expect(() => uploadOf({ body, query: { service: ['s', 's'] } })).toThrow('bad_form')
  })

  it('is passed on as it is, and errors of the REST interface are shown', async () => {
    const sent: unknown[] = []
    const { upload } = await browse({
      createJobFromFile: async (...call: unknown[]) => {
        sent.push(...call)
        return refusal(402, 'insufficient_balance', 'Top up the balance.')()
      },
    })
    const path = '/live/upload/job?service=s&column=2'
    expect((await upload(`${path}&id=x`, 'a')).statusCode).toBe(400)
    const id = '5f0c3f43-7a51-4f1a-9c39-6a1f6d3f5a10'
    const answer = await upload(`${path}&id=${id}`, String(body))
    expect([answer.statusCode, answer.json().error.message]).toEqual([402, 'Top up the balance.'])
    expect(sent).toMatchObject([body, { service: 's', column: '2' }, id])
  })
})

describe('a notice on a page', () => {
  it('is a known message, never text from the URL', () => {
    const notice = (query: object) => noticeOf({ query } as never)?.html
    expect(notice({ notice: 'resent' })).toContain('being sent again')
    expect([notice({ notice: '<b>' }), notice({ notice: 'constructor' }), notice({})])
      .toEqual([undefined, undefined, undefined])
  })
})
