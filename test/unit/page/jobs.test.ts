import { describe, expect, it } from 'vitest'
import { ApiError, type JobStatusResource } from '../../../services/client/client.ts'
import type { PageDeps } from '../../../services/page/context.ts'
import {
  attemptLike, ended, jobLike, openPage, recordingClient,
} from '../../support/page/page-doubles.ts'

/** A signed-in browser, and the calls of the REST client, each of which gets its answer. */
async function browse (
  answers: Readonly<Record<string, unknown>>, deps: Partial<PageDeps> = {}
) {
  const { calls, client } = recordingClient(answers)
  const completeRows = async function * () {}
  return { calls, ...await openPage({ client: { ...client, completeRows }, deps }).signIn() }
}
const jobsPage = (...data: readonly JobStatusResource[]) => ({ data, next_cursor: 'job_0' })

describe('the list of jobs', () => {
  const ALL = '/live/jobs'

  it.each([
    ['', { limit: 20 }],
    ['?service=whatsapp&created_to=2026-08-02&label=team&value=a&after=job_9&x=1', {
      limit: 20,
      service: 'whatsapp',
      created_to: '2026-08-02',
      after: 'job_9',
      metadata: { team: 'a' },
    }],
    ['?label=empty', { limit: 20, metadata: { empty: '' } }],
    ['?value=without+a+label', { limit: 20 }],
    ['?status=failed&status=queued', { limit: 20 }],
  ])('asks the REST interface for what is filled in: "%s"', async (query, asked) => {
    const { get, calls } = await browse({ jobsPage: jobsPage() })
    await get(`${ALL}${query}`)
    expect(calls).toEqual([['jobsPage', asked]])
  })

  it('keeps the filter for older jobs, and follows at most twenty running ones', async () => {
    const running = Array.from({ length: 22 }, (_, at) => jobLike({ id: `job_${at}` }))
    const { get } = await browse({
      jobsPage: jobsPage(
        jobLike({ id: 'job_end', ...ended, metadata: { file: '<b>.csv' } }),
        jobLike({ id: 'job_blank', ...ended, metadata: { name: ' ' } }), ...running),
    })
    const { body } = await get(`${ALL}?status=verifying&label=team+%22a%22`)
    for (const part of [
      'Ann &amp; Sons &lt;Ltd&gt;', '&lt;b&gt;.csv', '>job_blank<',
      '<option value="verifying" selected>',
      '<input type="text" name="label" value="team &quot;a&quot;">',
    ]) expect(body).toContain(part)
    expect(body)
      .toMatch(/href="[^"]*status=verifying&amp;[^"]*label=team\+%22a%22[^"]*after=job_0"/)
    const [, query = ''] = /data-live="\/live\/live\?view=list&amp;([^"]+)"/.exec(body) ?? []
    expect(query.split('&amp;').filter(part => part.startsWith('job='))).toHaveLength(20)
    expect(query).not.toContain('job_end')
  })

  it('is searched by id, state and labels, on further pages up to a bound', async () => {
    const pages = [
      jobsPage(jobLike({ metadata: { file: 'Spring.csv' } }), jobLike({ id: 'job_2' })),
      { data: [jobLike({ id: 'job_3', metadata: { team: 'spring' } })], next_cursor: null },
    ]
    const { read, calls } = await browse({
      jobsPage: ({ after }: { readonly after?: string }) => pages[after === 'job_0' ? 1 : 0],
    })
    const text = await read(`${ALL}?search=+SPRING&service=telegram`)
    expect(['Spring.csv', 'job_2', 'job_3', 'Older jobs'].map(name => text.includes(name)))
      .toEqual([true, false, true, false])
    expect(calls).toEqual([undefined, 'job_0'].map(after =>
      ['jobsPage', { limit: 100, service: 'telegram', ...after !== undefined && { after } }]))
    expect(await read(`${ALL}?search=job_2`)).toContain('job_2')
    expect(await read(`${ALL}?search=verifying`)).toContain('job_2')
    const endless = await browse({ jobsPage: jobsPage(jobLike()) })
    const { body } = await endless.get(`${ALL}?search=none`)
    expect(endless.calls).toHaveLength(5)
    expect(body).toContain('No job among the newest matches')
    expect(body).toMatch(/href="[^"]*search=none[^"]*after=job_0"/)
  })
})

describe('the page of a job', () => {
  const path = '/live/jobs/job_1'
  const refusal = (status: number) => () => {
    throw new ApiError(new Response(null, { status }), '{"error":{"code":"x","message":"y"}}')
  }
  const row = { row: 1, input: '<i>', status: 'valid', reason: null, confidence: 90, carrier: 'C' }
  const done = (more: Partial<JobStatusResource> = {}) => ({
    job: jobLike({ ...ended, ...more }), resultsPage: { data: [row] }, deliveries: [],
  })

  it('does not exist for an unknown job and an invalid id', async () => {
    const { get, send, calls } = await browse({ job: refusal(404), cancel: {}, resend: {} })
    expect((await get(path)).statusCode).toBe(404)
    const count = calls.length
    for (const url of ['/live/jobs/job_1%2Fresults', '/live/jobs/keys']) {
      expect((await get(url)).statusCode).toBe(404)
      expect((await send(`${url}/cancel`)).statusCode).toBe(404)
    }
    expect((await send(`${path}/deliveries/evt_1%2F../resend`)).statusCode).toBe(404)
    expect(calls).toHaveLength(count)
  })

  it('shows what waits, why, until when, and how to end it', async () => {
    const estimatedEndAt = '2026-11-21T12:05:00.000Z'
    const reasons = { greylisted: 2, unclear_answer: 1 }
    const job = jobLike({
      deadline: '2026-11-21T18:00:00.000Z', waiting: { rows: 3, reasons, estimatedEndAt },
    })
    const body = await (await browse({ job })).read(path)
    for (const part of [
      '3 of the open rows wait for an answer, until about 21 Nov 2026, 12:05:00',
      '2: the server asks to come back later', '1: unclear answer',
      'Deadline 21 Nov 2026, 18:00:00',
    ]) expect(body).toContain(part)
  })

  it('has a bar with every part visible, which fills its width', async () => {
    const job = jobLike({
      totalRows: 100_000, freshRecords: 99_990, pendingRecords: 0, unknownRecords: 6,
    })
    const { body } = await (await browse({ job })).get(path)
    const [, bar = ''] = body.split('id="breakdown-')
    const widths = [...bar.matchAll(/<rect class="tone-\w+" x="[\d.]+" y="0"\s+width="([\d.]+)"/g)]
      .map(([, width]) => Number(width))
    expect(widths.reduce((sum, width) => sum + width, 0)).toBeCloseTo(1_000, 1)
    expect(Math.min(...widths)).toBeGreaterThan(3.9)
    const empty = Object.fromEntries(Object.entries(jobLike())
      .map(([name, value]) => [name, name.endsWith('Records') || name === 'cacheHits' ? 0 : value]))
    expect((await (await browse({ job: empty })).get(path)).body).not.toContain('NaN')
  })

  it('shows rows without blank columns and repetitions of the input, in words', async () => {
    const data = [row, ...['+4930901820', '030 901820'].map((input, at) => ({
      row: at + 2, input, e164: '+4930901820', email: input, reason: 'assigned_range',
    }))]
    const { body } = await (await browse({ ...done(), resultsPage: { data } })).get(path)
    expect(body).toContain('&lt;i&gt;')
    expect(body).toContain('<td>assigned range</td>')
    const columns = [...body.matchAll(/<button class="sort" type="button">([^<]+)</g)]
    expect(columns.map(([, name]) => name))
      .toEqual(['Row', 'Input', 'Status', 'Reason', 'Confidence', 'E164', 'Carrier'])
  })

  it('leads to a carrier check of the list if numbers were checked by their plan', async () => {
    const byPlan = { ...row, checks: { syntax: 'passed', numbering_plan: 'passed' } }
    const link = 'href="/live/upload?service=carrier-lookup&amp;list=job_1"'
    for (const [checked, service, hasLink] of [
      [byPlan, 'phone-validation', true], [byPlan, 'carrier-lookup', false],
      [{ ...byPlan, checks: { ...byPlan.checks, vendor: 'passed' } }, 'phone-validation', false],
    ] as const) {
      const { get } = await browse({ ...done({ service }), resultsPage: { data: [checked] } })
      expect((await get(path)).body.includes(link)).toBe(hasLink)
    }
  })

  it('is shown without results when these are deleted or erased', async () => {
    for (const [erasedAt, text] of [
      [null, 'The results of this job are deleted.'],
      ['2026-11-22T12:00:00.000Z', 'This job is erased.'],
    ] as const) {
      const { read } = await browse({ ...done({ erasedAt }), resultsPage: refusal(410) })
      expect(await read(path)).toContain(text)
    }
  })

  const attempt = attemptLike()
  const again = { ...attempt, attempt: 2 }

  it.each([
    ['once', [attempt, again], ['Send once more']],
    ['by its type beside another one', [attempt, { ...again, deliveryId: 'evt_2', type: 'job.x' }],
      ['Send job.completed once more', 'Send job.x once more']],
    ['never, when one was discarded', [{ ...again, outcome: 'discarded' }, attempt], []],
    ['never for progress', [{ ...attempt, type: 'job.progress' }], []],
  ])('offers to send an event again: %s', async (_what, list, buttons) => {
    const { get } = await browse({ ...done(), deliveries: list })
    const { body } = await get(path)
    expect([...body.matchAll(/\/resend"[^]+?type="submit">([^<]+)</g)].map(([, text]) => text))
      .toEqual(buttons)
  })

  it('says of an event whether it is sent again, or was under way already', async () => {
    let status = 'queued'
    const { send, calls } = await browse({ resend: () => ({ status }) })
    const notice = async (id: string) =>
      (await send(`${path}/deliveries/${id}/resend`)).headers.location
    expect(await notice('evt_1.we_1')).toBe(`${path}?notice=resent`)
    status = 'delivering'
    expect(await notice('evt_1')).toBe(`${path}?notice=trying`)
    expect(calls).toEqual([['resend', 'job_1', 'evt_1.we_1'], ['resend', 'job_1', 'evt_1']])
  })

  it('erases it after a confirmation, when it has ended and is not erased', async () => {
    const { read, send, calls } = await browse({ ...done(), eraseJob: {} })
    expect(await read(`${path}/erase`)).toContain('This cannot be undone.')
    const { headers } = await send(`${path}/erase`, { cache: 'yes' })
    expect(headers.location).toBe(`${path}?notice=erased`)
    await send(`${path}/erase`)
    expect(calls.filter(([name]) => name === 'eraseJob'))
      .toEqual([true, false].map(cache => ['eraseJob', 'job_1', { cache }]))
    for (const job of [jobLike(), jobLike({ ...ended, erasedAt: ended.completedAt })]) {
      const other = await browse({ ...done(), job })
      expect(await other.read(path)).not.toContain('Erase the job')
      expect((await other.get(`${path}/erase`)).statusCode).toBe(404)
    }
  })

  const style = { safe: 'spreadsheet', delimiter: 'original' }
  it.each([
    ['results.csv', style, '.csv'],
    ['results.csv?list=yes&join=original',
      { columns: ['input'], delimiter: 'original', join: 'original' }, '.csv'],
    ['valid.csv?join=original',
      { ...style, status: 'valid', duplicates: 'drop', join: 'original' }, '.valid.csv'],
    ['results.xlsx?join=original', { format: 'xlsx', join: 'original' }, '.xlsx'],
  ])('has the file %s, named after the upload', async (file, asked, end) => {
    const client = { ...done(), resultsFile: () => [Buffer.from('row\r\n')] }
    const { get, calls } = await browse(client)
    const { body, headers } = await get(`${path}/${file}`)
    expect([body, headers['content-disposition']])
      .toEqual(['row\r\n', `attachment; filename="job_1${end}"`])
    expect(calls.at(-1)).toEqual(['resultsFile', 'job_1', asked])
    const job = jobLike({ ...ended, hasOriginalColumns: true, metadata: { file: 'Liste.csv' } })
    const uploaded = await (await browse({ ...client, job })).get(`${path}/${file}`)
    expect(uploaded.headers['content-disposition']).toContain(`filename="Liste.verified${end}"`)
  })
})

describe('the progress of jobs', () => {
  type Update = { done: boolean, announcement: string, elements: Record<string, string> }
  const updatesIn = (body: string) => body.trim().split('\n\n')
    .map(text => JSON.parse(text.slice('data: '.length)) as Update)

  it('is polled without events until the job has ended, and sent when it changes', async () => {
    const states = [
      jobLike(), jobLike(), jobLike({ progressPercent: 80 }), jobLike({ progressPercent: 80 }),
      jobLike(ended),
    ]
    const pausesMs: number[] = []
    const sleep = async (ms: number) => { pausesMs.push(ms) }
    const { get } = await browse({ job: () => states.shift() }, { sleep })
    const { body, headers } = await get('/live/live?view=job&job=job_1')
    expect(headers['content-type']).toBe('text/event-stream; charset=utf-8')
    const updates = updatesIn(body)
    expect(pausesMs).toEqual([500, 500, 500, 500])
    expect(updates.map(({ done, announcement }) => [done, announcement]))
      .toEqual([[false, ''], [false, ''], [true, 'job_1: Completed.']])
    expect(Object.keys(updates[0]?.elements ?? {}))
      .toEqual(['state-job_1', 'quality-job_1', 'money-job_1', 'breakdown-job_1', 'waiting-job_1'])
    expect(updates[1]?.elements['state-job_1']).toContain('80 %')
  })

  it('follows the events of one job, with its first rows as they are complete', async () => {
    const reads: unknown[] = []
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const event = (more: Partial<JobStatusResource>) =>
      ({ id: 'e', type: 'progress', data: { ...jobLike(more), finished: [], cursor: 'c' } })
    const row = (number: number) =>
      ({ row: number, input: `<${number}>`, status: 'valid', cursor: `c${number}` })
    let jobs = 0
    const client = {
      job: async () => {
        jobs += 1
        return jobLike()
      },
      events: async function * () {
        await first.promise
        yield event({ progressPercent: 80 })
        await second.promise
        yield event(ended)
      },
      completeRows: async function * (_id: string, { after }: { readonly after?: string }) {
        reads.push(after)
        yield row(reads.length)
        if (reads.length === 1) first.resolve()
        else second.resolve()
      },
    }
    const page = openPage({ client, deps: { sleep: () => new Promise(() => {}) } })
    const { get } = await page.signIn('developer')
    const updates = updatesIn((await get('/live/live?view=job&job=job_1')).body)
    expect(updates.map(({ elements, done }) => [Object.keys(elements)[0], done])).toEqual([
      ['state-job_1', false], ['rows-job_1', false], ['state-job_1', false],
      ['rows-job_1', false], ['state-job_1', true],
    ])
    expect(updates[2]?.elements['state-job_1']).toContain('80 %')
    expect(['1', '2'].map(number => updates[3]?.elements['rows-job_1']?.includes(`&lt;${number}`)))
      .toEqual([true, true])
    expect([jobs, reads]).toEqual([1, [undefined, 'c1']])
    // Nor by a connection that is opened again.
    await get('/live/live?view=job&job=job_1')
    expect(page.deps.recorded.map(({ action }) => action)).toEqual(['results.previewed'])
  })

  it('starts again with rows that were counted again, up to a hundred', async () => {
    const reads: unknown[] = []
    const client = {
      job: async () => jobLike(reads.length > 4 ? ended : { progressPercent: reads.length }),
      completeRows: async function * (_id: string, { after }: { readonly after?: string }) {
        reads.push(after)
        if (reads.length === 2) {
          throw new ApiError(new Response(null, { status: 409 }),
            '{"error":{"code":"cursor_moved","message":"x"}}')
        }
        const rows = reads.length === 4 ? 200 : 1
        for (let row = 1; row <= rows; row++) yield { row, input: 'x', cursor: `c${reads.length}` }
      },
    }
    let pauses = 0
    const { signIn } = openPage({
      client,
      deps: {
        sleep: async () => {
          pauses += 1
          if (pauses > 6) throw new Error('the browser has left')
        },
      },
    })
    const { get } = await signIn('owner')
    const updates = updatesIn((await get('/live/live?view=job&job=job_1')).body)
    const counts = updates.flatMap(({ elements }) =>
      /The first (\d+) of/.exec(elements['rows-job_1'] ?? '')?.[1] ?? [])
    expect([reads, counts]).toEqual([[undefined, 'c1', undefined, 'c3'], ['1', '1', '100']])
  })

  it('has no rows for those who may not see results', async () => {
    const client = { job: async () => jobLike() }
    const { get } = await openPage({
      client, deps: { sleep: async () => { throw new Error('the browser has left') } },
    }).signIn('read-only')
    const [update, ...more] = updatesIn((await get('/live/live?view=job&job=job_1')).body)
    expect(Object.keys(update?.elements ?? {})).not.toContain('rows-job_1')
    expect(more).toEqual([])
  })

  it.each([
    ['is signed out', 'developer', async (deps: PageDeps, id: string) => deps.sessions.end(id)],
    ['has another role', 'developer', async (deps: PageDeps, _id: string, person: string) =>
      deps.people.changeRole('org_1', person, 'read-only')],
    ['has the link of an erased organization', 'link', async (deps: PageDeps) =>
      deps.organizations.markErased('org_1')],
  ] as const)('of a list is read with one request, and ends when the visitor %s', async (
    _what, who, end
  ) => {
    const calls: string[] = []
    const pausesMs: number[] = []
    const client = {
      jobsPage: async () => ({ data: [jobLike(), jobLike({ id: 'job_2' })] }),
      job: async (id: string) => {
        calls.push(id)
        return jobLike({ id })
      },
    }
    const { deps, signIn } = openPage({
      client,
      deps: {
        sleep: async ms => {
          if (pausesMs.push(ms) === 2) await end(deps, visitor.id, visitor.actor.id)
          if (pausesMs.length > 4) throw new Error('the stream goes on')
        },
      },
    })
    await signIn('owner')
    const visitor = await signIn(who)
    const { body } = await visitor.get('/live/live?view=list&job=job_1&job=job_2&job=job_3')
    const [update, ...more] = updatesIn(body)
    expect(Object.keys(update?.elements ?? {}))
      .toEqual(['state-job_1', 'state-job_2', 'state-job_3'])
    expect([more, calls, pausesMs]).toEqual([[], ['job_3', 'job_3'], [1_000, 1_000]])
  })

  it('is sent to a hundred pages of an organization at a time', async () => {
    const streams: Promise<unknown>[] = []
    const opened = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<void>()
    let waiting = 0
    const { get } = await browse({ job: jobLike() }, {
      sleep: async () => {
        if (++waiting === 100) opened.resolve()
        await ended.promise
        throw new Error('the browser has left')
      },
    })
    for (let at = 0; at < 100; at++) streams.push(get('/live/live?view=job&job=job_1'))
    await opened.promise
    expect((await get('/live/live?view=job&job=job_1')).statusCode).toBe(503)
    ended.resolve()
    await Promise.all(streams)
  })

  it('is of one to twenty jobs with valid ids', async () => {
    const { get } = await browse({})
    const many = Array.from({ length: 21 }, (_, at) => `job=job_${at}`).join('&')
    for (const [query, status] of [['', 400], [many, 400], ['job=keys', 404]] as const) {
      expect((await get(`/live/live?${query}`)).statusCode).toBe(status)
    }
  })
})
