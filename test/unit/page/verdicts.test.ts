import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { ResultRow } from '../../../schemas/api/results.ts'
import { ApiError, type JobStatusResource } from '../../../services/client/client.ts'
import { ended, jobLike, openPage, textOf } from '../../support/page/page-doubles.ts'

const path = '/live/jobs/job_1'
const services = async () => [
  { slug: 'telegram', columns: ['country', 'line_type'] },
  { slug: 'email-validation', columns: ['domain', 'free', 'mail_provider'] },
]

/** A signed-in browser, and the job that it looks at. */
async function browse (more: Partial<JobStatusResource>, client: object = {}) {
  const job = jobLike({ ...ended, ...more })
  return await openPage({
    client: {
      job: async () => job,
      resultsPage: async () => ({ data: [] }),
      deliveries: async () => [],
      services,
      ...client,
    },
  }).signIn()
}

describe('the verdicts of a job', () => {
  it('are with what is open while it runs, and its reasons, the most frequent first', async () => {
    const { get } = await browse({
      status: 'verifying',
      totalRows: 10,
      verdicts: { valid: 5, invalid: 2, risky: 1, unknown: 0 },
      reasons: { too_short: 2, assigned_range: 5, unassigned_range: 1 },
    })
    const text = textOf((await get(path)).body)
    expect(text).toContain('Valid 5 50 % Risky 1 10 % Invalid 2 20 % Unknown 0 0 % Open 2 20 %')
    expect(text).toMatch(/assigned range .* 5 too short .* 2 unassigned range .* 1 /)
  })

  it('are said to be missing where an older release ran the job', async () => {
    const { read } = await browse({ verdicts: null, reasons: null })
    expect(await read(path)).toContain('The verdicts of this job were not counted.')
  })

  it.each([
    ['email-validation', { valid: 5, invalid: 3, risky: 2, unknown: 1 },
      { deliverable: 5, mailbox_not_found: 2, not_an_email: 1, catch_all: 2, greylisted: 1 },
      'Bounce estimate: 20 % to 50 %.'],
    ['email-validation', { valid: 0, invalid: 2, risky: 0, unknown: 0 }, { not_an_email: 2 }, ''],
    ['email-validation', { valid: 3, invalid: 3, risky: 0, unknown: 0 },
      { deliverable: 2, allow_listed: 1, mailbox_not_found: 1, suppressed: 1, block_listed: 1 },
      'Bounce estimate: 25 % to 25 %.'],
    ['phone-validation', { valid: 1, invalid: 1, risky: 0, unknown: 0 }, { too_short: 1 }, ''],
  ])('of %s estimate who bounces without unreadable and blocked ones: %o', async (
    service, verdicts, reasons, estimate
  ) => {
    const text = await (await browse({ service, verdicts, reasons })).read(path)
    expect(/Bounce estimate: .*? to .*?\./.exec(text)?.[0] ?? '').toBe(estimate)
  })
})

describe('the summary of a job', () => {
  const rowsOf = (rows: readonly Partial<ResultRow>[]) => {
    const asked: unknown[] = []
    return {
      asked,
      resultLines: async function * (...call: readonly unknown[]) {
        asked.push(call)
        yield * rows
      },
    }
  }

  it('counts verdicts by country and line type in one pass, once', async () => {
    const { asked, resultLines } = rowsOf([
      ...Array.from({ length: 12 }, (_, at) => ({
        status: 'invalid', country: `A${String.fromCharCode(68 + at)}`, line_type: 'mobile',
      })),
      { status: 'valid', country: 'DE', line_type: 'fixed_line_or_mobile' },
      { status: 'valid', country: 'DE', line_type: 'mobile' },
      { status: 'invalid', country: null, line_type: null },
    ] as readonly Partial<ResultRow>[])
    const { get } = await browse({}, { resultLines })
    const [answer] = await Promise.all([get(`${path}/summary`), get(`${path}/summary`)])
    const { html } = answer.json() as { readonly html: string }
    const text = textOf(html)
    expect(text).toContain('Germany 2 100 %')
    expect(text).toContain('Andorra 1 0 %')
    // Ten, and what is left of thirteen others.
    expect(text).toContain('All others 4 0 %')
    expect(text).toContain('mobile 13 7.7 %')
    expect(text).toContain('fixed line or mobile 1 100 %')
    expect(html).toContain('aria-label="Verdicts: Valid 7.7 %, Invalid 92.3 %."')
    await get(`${path}/summary`)
    expect(asked).toEqual([['job_1', { columns: ['status', 'country', 'line_type'] }]])
  })

  it('is counted for eight jobs at a time, others wait', async () => {
    let [active, most] = [0, 0]
    const resultLines = async function * () {
      most = Math.max(most, ++active)
      for (let turn = 0; turn < 20; turn++) await nextTurn()
      active -= 1
      yield { status: 'valid', country: 'DE', line_type: 'mobile' }
    }
    const job = async (id: string) => jobLike({ ...ended, id })
    const { get } = await browse({}, { resultLines, job })
    const answers = await Promise.all(Array.from({ length: 20 }, (_, at) =>
      get(`/live/jobs/job_${at}/summary`)))
    expect(answers.filter(({ body }) => body.includes('Germany'))).toHaveLength(20)
    expect(most).toBe(8)
  })

  it('counts e-mail addresses by provider and domain, escaped', async () => {
    const { asked, resultLines } = rowsOf([
      { status: 'risky', mail_provider: null, domain: '<b>.example' },
      { status: 'valid', mail_provider: 'google', domain: 'gmail.com' },
      { status: 'invalid', mail_provider: 'google', domain: 'shop.example' },
    ])
    const { get } = await browse({ service: 'email-validation' }, { resultLines })
    const { html } = (await get(`${path}/summary`)).json() as { readonly html: string }
    expect(html).toContain('&lt;b&gt;.example')
    expect(textOf(html)).toMatch(/Mail provider .* google 2 50 % .* Not known 1 0 % .* Domain/)
    expect(asked).toEqual([['job_1', { columns: ['status', 'mail_provider', 'domain'] }]])
  })

  it('exists only for jobs with results', async () => {
    const gone = () => {
      throw new ApiError(new Response(null, { status: 410 }), '{"error":{"code":"x","message":""}}')
    }
    for (const [more, status] of [
      [{ erasedAt: '2026-11-28T00:00:00.000Z' }, 404], [{ status: 'verifying' }, 404], [{}, 200],
    ] as const) {
      const answer = await (await browse(more, { resultLines: gone })).get(`${path}/summary`)
      expect([more, answer.statusCode]).toEqual([more, status])
      if (status === 200) expect(answer.json()).toEqual({ html: '' })
    }
  })
})

describe('the overview', () => {
  const usage = {
    from: '2026-08-10T00:00:00.000Z', to: '2026-08-11T00:00:00.000Z', group_by: ['day'],
  }
  const counted = {
    jobs: 1, verdicts: { valid: 3, risky: 0, invalid: 1, unknown: 0 }, chargedMicros: 8_000,
  }
  const endpoint = (id: string, enabled = true) => ({ id, url: `https://${id}.example`, enabled })
  const attempt = (outcome: string) => ({
    outcome, statusCode: 500, reason: 'status', attemptedAt: '2026-08-10T00:00:00.000Z',
  })
  const client = {
    balance: async () => ({ balanceMicros: 2, reservedMicros: 1, availableMicros: 1 }),
    jobsPage: async () => ({ data: [jobLike({ metadata: { name: 'spring' } })] }),
    usage: async () => ({ ...usage, data: [{ day: '2026-08-10', ...counted }], total: counted }),
    webhookEndpoints: async () => [
      endpoint('we_good'), endpoint('we_bad'), endpoint('we_off', false), endpoint('we_new'),
    ],
    endpointDeliveries: async function * (id: string) {
      if (id === 'we_new') return
      yield attempt(id === 'we_good' ? 'delivered' : 'exhausted')
      yield attempt('failed')
    },
  }

  it('has charges and verdicts of thirty days', async () => {
    const { get } = await openPage({ client, deps: { supportUrl: 'mailto:a@b.example' } }).signIn()
    const { body } = await get('/live/overview')
    expect(body).toMatch(/href="\/live\/jobs\/job_1">spring</)
    expect(body).toContain('href="mailto:a@b.example">Top up')
    const text = textOf(body)
    expect(text).toContain('Charged $0.0080 In 30 days, for 1 job')
    expect(text).toContain('Valid 75 % Of 4 rows')
  })

  it('names the enabled webhook endpoints whose latest attempt failed', async () => {
    const { read } = await openPage({ client }).signIn()
    const text = await read('/live/overview')
    expect(text).toMatch(/Failing webhooks .*https:\/\/we_bad\.example Retries exhausted 500/)
    for (const name of ['we_good', 'we_off', 'we_new']) expect(text).not.toContain(name)
  })
})
