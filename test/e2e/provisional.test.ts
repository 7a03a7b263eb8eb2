import { describe, expect, it } from 'vitest'
import type { ResultRow } from '../../schemas/api/results.ts'
import type { JobRequest } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

const MAX_STREAMS = 4

const environment = closeAfterAll(await startEnvironment({
  MAX_EVENT_STREAMS_PER_TENANT: String(MAX_STREAMS), RETRY_DELAY_MS: '500',
}, { stages: ['ingest', 'verify'] }))

/** Its check is unavailable for 15 minutes, so its job runs until it is cancelled. */
const WAITING = '+12127360005'
const OTHERS = [
  '+12127365000', 'no number', '+12127365001', '(212) 736-5000', WAITING, '+12127365002',
  '+1 212 736 5001', `${WAITING} `, '+12127365003', '',
]
/** Rows with a verdict while the job runs, by their number. */
const EARLY = [1, 2, 3, 4, 6, 7, 9, 10]

const get = async (path: string, headers: Record<string, string> = {}, signal?: AbortSignal) =>
  await fetch(`${environment.baseUrl}${path}`, {
    headers: { authorization: `Bearer ${environment.keys.test}`, ...headers },
    ...signal && { signal },
  })

const codeOf = async (answer: Response) =>
  [answer.status, (await answer.json() as { error: { code: string } }).error.code]

const startJob = async (inputs: JobRequest['inputs'] = OTHERS) =>
  (await environment.test.createJob({ service: 'phone-validation', inputs })).id

type Line = ResultRow & { readonly provisional: boolean, readonly cursor: string }

/** The lines of one answer, or the first ones before the connection is closed. */
async function readLines (id: string, after?: string, most = Infinity) {
  const query = after === undefined ? '' : `&after=${after}`
  const answer = await get(`/jobs/${id}/results?format=jsonl&provisional=true${query}`)
  expect(answer.status).toBe(200)
  const all = (await answer.text()).split('\n').slice(0, -1).map(line => JSON.parse(line) as Line)
  const lines = all.slice(0, most)
  return {
    lines,
    next: lines.length === all.length
      ? answer.headers.get('next-cursor') ?? undefined
      : lines.at(-1)?.cursor ?? after,
    isComplete: lines.length === all.length && answer.headers.get('results-complete') === 'true',
  }
}

const withoutCursor = ({ provisional: _, cursor: _cursor, ...row }: Line): ResultRow => row
const byRow = (a: ResultRow, b: ResultRow) => Number(a['row']) - Number(b['row'])

async function finalRows (id: string): Promise<readonly ResultRow[]> {
  const rows: ResultRow[] = []
  for await (const row of environment.test.resultLines(id)) rows.push(row)
  return rows
}

type Event = { readonly id: string, readonly type: string, readonly data: EventData }
type EventData = {
  readonly status: string
  readonly finished: readonly { readonly block: number, readonly rows: number }[]
}

/** The first event of a stream, whose connection is closed then; undefined for 204. */
async function firstEvent (id: string, last?: string): Promise<Event | undefined> {
  const headers: Record<string, string> = last === undefined ? {} : { 'last-event-id': last }
  let answer = await get(`/jobs/${id}/events`, headers)
  // The place of a stream that was closed before is free a moment later.
  await expect.poll(async () => {
    if (answer.status === 429) answer = await get(`/jobs/${id}/events`, headers)
    return answer.status
  }).not.toBe(429)
  if (answer.status === 204) return undefined
  expect([answer.status, answer.headers.get('content-type')])
    .toEqual([200, 'text/event-stream; charset=utf-8'])
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of answer.body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    const found = /^id: (.+)\nevent: (.+)\ndata: (.+)\n\n/m.exec(text)
    if (found === null) continue
    return { id: found[1]!, type: found[2]!, data: JSON.parse(found[3]!) as EventData }
  }
  throw new Error(`the stream of job ${id} ended without an event: ${text}`)
}

describe('provisional results', () => {
  it('come once each, one request for each row, and end as the final file', async () => {
    const id = await startJob(OTHERS.map((input, index) => ({ input, id: `customer ${index}` })))
    const got: Line[] = []
    let after: string | undefined
    await expect.poll(async () => {
      const { lines, next } = await readLines(id, after, 1)
      got.push(...lines)
      after = next
      return got.map(({ row }) => row).toSorted((a, b) => Number(a) - Number(b))
    }, { timeout: 30_000 }).toEqual(EARLY)
    expect(got.every(({ provisional }) => provisional)).toBe(true)
    expect(await codeOf(await get(`/jobs/${id}/results`))).toEqual([409, 'job_not_completed'])
    await environment.test.cancel(id)
    await environment.test.waitForEnd(id)
    for (let isComplete = false; !isComplete;) {
      const answer = await readLines(id, after, 1)
      got.push(...answer.lines)
      after = answer.next
      isComplete = answer.isComplete
    }
    expect(got.filter(({ provisional }) => !provisional).map(({ row }) => row)).toEqual([5, 8])
    expect(got.map(withoutCursor).toSorted(byRow)).toEqual(await finalRows(id))
    const again = await readLines(id, after)
    expect([again.lines, again.next, again.isComplete]).toEqual([[], after, true])
  })

  it('follow a job by the client, whose service stops meanwhile', async () => {
    const id = await startJob()
    const got: Line[] = []
    for await (const row of environment.test.provisionalResults(id)) {
      got.push(row as Line)
      if (got.length !== EARLY.length) continue
      const { services } = environment
      const instances = () => services.list().filter(({ name }) => name.startsWith('ingest-'))
      const stopped = instances()
      for (const { name } of stopped) services.kill(name, 'SIGTERM')
      const pids = new Set(stopped.map(({ pid }) => pid))
      await eventually(() => expect(instances().filter(({ pid }) => pids.has(pid))).toEqual([]))
      await services.untilReady()
      await environment.test.cancel(id)
    }
    expect(got.map(withoutCursor).toSorted(byRow)).toEqual(await finalRows(id))
    const rest: Line[] = []
    const { cursor } = got[2]!
    for await (const row of environment.test.provisionalResults(id, { after: cursor })) {
      rest.push(row as Line)
    }
    expect(rest.map(({ row }) => row)).toEqual(got.slice(3).map(({ row }) => row))
  })

  it('are selected like final ones', async () => {
    const id = await startJob(OTHERS.filter(input => !input.startsWith(WAITING)))
    await environment.test.waitForEnd(id)
    const query = 'format=jsonl&provisional=true&status=valid&duplicates=drop&columns=row,e164'
    const answer = await get(`/jobs/${id}/results?${query}`, { 'accept-encoding': 'gzip' })
    const lines = (await answer.text()).trim().split('\n').map(line => JSON.parse(line) as Line)
    expect(lines.map(withoutCursor)).toEqual([
      { row: 1, e164: '+12127365000' }, { row: 3, e164: '+12127365001' },
      { row: 5, e164: '+12127365002' }, { row: 7, e164: '+12127365003' },
    ])
    expect(answer.headers.get('results-complete')).toBe('true')
  })

  it('are refused for other formats, cursors and jobs, and once they are erased', async () => {
    const [id, other] = [await startJob(OTHERS.slice(0, 3)), await startJob(OTHERS.slice(0, 4))]
    for (const job of [id, other]) await environment.test.waitForEnd(job)
    const path = `/jobs/${id}/results?format=jsonl&provisional=true`
    const { next = '' } = await readLines(other)
    const asks = [
      [`/jobs/${id}/results?format=jsonl&after=${next}`, 400, 'invalid_request'],
      [`/jobs/${id}/results?format=jsonl&provisional=TRUE`, 400, 'invalid_request'],
      [`/jobs/${id}/results?format=csv&provisional=true`, 400, 'invalid_request'],
      [`${path}&after=`, 400, 'invalid_request'],
      [`${path}&after=1.0.0.0.x`, 400, 'invalid_request'],
      [`${path}&after=${next}`, 409, 'cursor_moved'],
      [`/jobs/job_${'0'.repeat(26)}/results?format=jsonl&provisional=true`, 404, 'job_not_found'],
    ] as const
    for (const [ask, status, code] of asks) {
      expect([ask, ...await codeOf(await get(ask))]).toEqual([ask, status, code])
    }
    await environment.test.eraseJob(id)
    expect(await codeOf(await get(path))).toEqual([410, 'results_erased'])
    expect((await firstEvent(id))?.data).toMatchObject({ erasedAt: expect.any(String) })
  })
})

describe('the events of a job', () => {
  it('come once each, one connection for each, until 204 after the end', async () => {
    const id = await startJob()
    const events: Event[] = []
    const finished = () => events.flatMap(({ data }) => data.finished)
    const rows = () => finished().reduce((sum, block) => sum + block.rows, 0)
    for (let last: string | undefined; ;) {
      const event = await firstEvent(id, last)
      if (event === undefined) break
      last = event.id
      events.push(event)
      if (event.data.status === 'verifying' && rows() >= EARLY.length - 1) {
        await environment.test.cancel(id).catch(() => {})
      }
    }
    expect(events.map(({ type }) => type).lastIndexOf('progress')).toBe(events.length - 2)
    expect(events.at(-1)).toMatchObject({ type: 'end', data: { status: 'cancelled' } })
    expect(finished().map(({ block }) => block))
      .toEqual(finished().map((_, index) => index + 1))
    expect(rows()).toBe(OTHERS.length)
    expect(new Set(events.map(({ id: each }) => each)).size).toBe(events.length)
  })

  it('follow a job by the client, and can be taken up after any of them', async () => {
    const id = await startJob(OTHERS.filter(input => !input.startsWith(WAITING)))
    const events: { readonly id: string, readonly type: string }[] = []
    for await (const event of environment.test.events(id)) events.push(event)
    expect(events.at(-1)?.type).toBe('end')
    const rest: string[] = []
    const last = events.at(-2)?.id
    for await (const event of environment.test.events(id, last)) rest.push(event.id)
    expect(rest).toEqual([events.at(-1)?.id])
  })

  it('are limited to as many streams as an organization may have', async () => {
    const id = await startJob()
    const open = new AbortController()
    for (let opened = 0; opened < MAX_STREAMS; opened += 1) {
      // The place of a stream that was closed before is free a moment later.
      await expect.poll(async () => (await get(`/jobs/${id}/events`, {}, open.signal)).status)
        .toBe(200)
    }
    const third = await get(`/jobs/${id}/events`)
    expect([await codeOf(third), Number(third.headers.get('retry-after'))])
      .toEqual([[429, 'too_many_streams'], expect.any(Number)])
    open.abort()
    await environment.test.cancel(id)
    await expect.poll(async () => {
      const { status, body } = await get(`/jobs/${id}/events`)
      await body?.cancel()
      return status
    }).toBe(200)
  })

  it('are refused for ids of other jobs, texts that are none, and unknown jobs', async () => {
    const [id, other] = [await startJob(OTHERS.slice(0, 3)), await startJob(OTHERS.slice(0, 4))]
    for (const job of [id, other]) await environment.test.waitForEnd(job)
    const event = await firstEvent(other)
    const ask = async (job: string, last: string) =>
      await codeOf(await get(`/jobs/${job}/events`, { 'last-event-id': last }))
    expect(await ask(id, event!.id)).toEqual([409, 'cursor_moved'])
    for (const text of ['x', '1', `${event!.id}x`, `${event!.id}.end`, 'a.b', '.end']) {
      expect([text, ...await ask(id, text)]).toEqual([text, 400, 'invalid_request'])
    }
    expect(await ask(`job_${'0'.repeat(26)}`, '')).toEqual([404, 'job_not_found'])
    expect(await codeOf(await get(`/jobs/${id}/events`, { accept: 'application/json' })))
      .toEqual([406, 'not_acceptable'])
    const head = await fetch(`${environment.baseUrl}/jobs/${id}/events`, {
      method: 'HEAD', headers: { authorization: `Bearer ${environment.keys.test}` },
    })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })
})
