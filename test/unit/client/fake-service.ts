import { createHash } from 'node:crypto'
import { createClient } from '../../../services/client/client.ts'

type FakeJob = {
  readonly id: string
  readonly key: string
  readonly inputs: readonly string[]
  readonly body: Readonly<Record<string, unknown>>
  polls: number
}

/** Where a test can end the command; `after POST` is before the response. */
export type Moment = 'POST' | 'after POST' | 'wait' | 'download' | 'quote'

export type FakeOptions = {
  /** Thrown or returned at the n-th occurrence of a moment, from 1. */
  readonly at?: (moment: Moment, times: number) => Error | Response | undefined
  readonly availableMicros?: number
  readonly priceMicros?: number
  readonly endAs?: string
}

const CSV_COLUMNS = 'row,input,e164,status,reason,duplicate_of'

type Moments = (name: Moment) => Response | undefined
type Body = FakeJob['body']

/** A service of one organization in memory. Its jobs persist over several commands. */
export function createFakeService (initial: FakeOptions = {}) {
  let options = initial
  const jobs: FakeJob[] = []
  const requests: string[] = []
  const times = new Map<Moment, number>()
  const moment: Moments = name => {
    const count = (times.get(name) ?? 0) + 1
    times.set(name, count)
    const found = options.at?.(name, count)
    if (found instanceof Error) throw found
    return found
  }
  /** For the error `Ctrl-C` of a moment: calls `onCtrlC` and never responds. */
  const fetch = (onCtrlC = () => {}): typeof globalThis.fetch => async (url, init) => {
    const line = `${init?.method} ${String(url).replace(/^http:..[a-z]+(.api.v1)?/, '')}`
    requests.push(line)
    const key = new Headers(init?.headers).get('idempotency-key') ?? ''
    const body = init?.body === undefined ? {} : JSON.parse(String(init.body))
    try {
      const given = answerTo({ line, key, body }, { jobs, options, moment })
      return given instanceof Response ? given : new Response(JSON.stringify(given))
    } catch (error) {
      if (!(error instanceof Error) || error.message !== 'Ctrl-C') throw error
      onCtrlC()
      return await new Promise(() => {})
    }
  }
  const client = createClient({
    baseUrl: 'http://there', apiKey: 'vj_live_1', retries: 0, fetch: fetch(),
  })
  /** Changes the behaviour from now on and resets the counts of moments. */
  const change = (next: FakeOptions) => {
    options = next
    times.clear()
  }
  return { client, fetch, jobs, requests, change }
}

type ReceivedRequest = { readonly line: string, readonly key: string, readonly body: Body }
type Inside = { readonly jobs: FakeJob[], readonly options: FakeOptions, readonly moment: Moments }

function answerTo ({ line, key, body }: ReceivedRequest, inside: Inside): object {
  const { jobs, options, moment } = inside
  if (line === 'POST /jobs') return post(key, body, inside)
  if (line === 'POST /verifications') return verified(key, body, inside)
  if (line === 'POST /quotes') {
    return moment('quote') ?? {
      preflight: preflightOf(body['inputs'] as string[], options), limitations: ['range_only'],
    }
  }
  if (line === 'GET /services') return { data: SERVICES }
  if (line === 'GET /balance') return balanceOf(options)
  if (line.startsWith('GET /transactions')) return { data: [TRANSACTION] }
  if (line.startsWith('GET /usage')) return usageOf(line)
  if (line.startsWith('DELETE /jobs/job_7')) return { id: 'job_7', erasedAt: AT }
  const job = jobs.find(({ id }) => line.split('/')[2]?.split('?')[0] === id)
  if (job === undefined) return refusal(404, { code: 'job_not_found', message: 'none' })
  if (line.includes('format=json')) return pageOf(job)
  return line.includes('/results') ? resultsOf(job, moment) : poll(job, inside)
}

const AT = '2026-08-11T10:00:00.000Z'
const TRANSACTION = {
  createdAt: AT, type: 'settle', amountMicros: 4_000, availableMicros: 96_000, jobId: 'job_7',
}

function usageOf (line: string): object {
  return line.includes('format=csv') ? new Response('day,jobs\r\n2026-08-11,2\r\n') : { data: [] }
}
function balanceOf ({ availableMicros = 1e9 }: FakeOptions): object {
  return { balanceMicros: availableMicros, reservedMicros: 0, availableMicros, currency: 'USD' }
}

const pageOf = ({ inputs }: FakeJob) => ({
  data: inputs.map((input, index) => ({
    row: index + 1, input, e164: verdictOf(input), status: 'valid', reason: null,
  })),
  has_more: false,
  next_cursor: null,
})

const preflightOf = (inputs: readonly string[], { priceMicros = 5 }: FakeOptions) => ({
  totalRows: inputs.length,
  invalidRows: 0,
  duplicateRows: 0,
  cacheHits: 0,
  freshChecks: inputs.length,
  maxQuoteMicros: inputs.length * priceMicros,
  quoteId: 'quot_1',
})

function post (key: string, body: Body, { jobs, options, moment }: Inside): object {
  const rejection = moment('POST')
  if (rejection !== undefined) return rejection
  const inputs = body['inputs'] as readonly string[]
  const known = jobs.find(job => job.key === key)
  const job = known ?? { id: `job_${jobs.length + 1}`, key, inputs, body, polls: 0 }
  if (known === undefined) jobs.push(job)
  moment('after POST')
  return { id: job.id, status: 'queued', preflight: preflightOf(job.inputs, options) }
}

function poll (job: FakeJob, { options, moment }: Inside): object {
  const rejection = moment('wait')
  if (rejection !== undefined) return rejection
  const ended = ++job.polls > 1
  const { length } = job.inputs
  return {
    id: job.id,
    status: ended ? options.endAs ?? 'completed' : 'verifying',
    totalRows: length,
    service: job.body['service'],
    successRecords: ended ? length : Math.floor(length / 2),
    failedRecords: 0,
    pendingRecords: ended ? 0 : Math.ceil(length / 2),
    maxQuoteMicros: length * (options.priceMicros ?? 5),
    chargedMicros: ended ? length * (options.priceMicros ?? 5) : 0,
    releasedMicros: 0,
  }
}

function verified (key: string, body: Body, inside: Inside): object {
  post(key, body, inside)
  const job = inside.jobs.at(-1)!
  job.polls += 1
  const results = job.inputs.map((input, index) =>
    ({ row: index + 1, input, status: 'valid', reason: 'assigned_range' }))
  return { ...poll(job, inside), results }
}

const SERVICES = [
  { slug: 'phone-validation', inputKind: 'phone', priceMicros: 5, columns: [], configured: true },
  { slug: 'email-validation', inputKind: 'email', priceMicros: 5, columns: [], configured: true },
  { slug: 'whatsapp', inputKind: 'phone', priceMicros: 5, columns: [], configured: false },
]

export const refusal = (status: number, error: object) =>
  new Response(JSON.stringify({ error }), { status })

/** The verdict about a contact: a function of the contact. */
export const verdictOf = (input: string) =>
  createHash('sha256').update(input).digest('hex').slice(0, 12)

function resultsOf (job: FakeJob, moment: Moments): Response {
  const cell = (text: string) => `"${text.replaceAll('"', '""')}"`
  const lines = job.inputs.map((input, index) =>
    `${index + 1},${cell(input)},${cell(verdictOf(input))},valid,,${index > 0 ? 1 : ''}\r\n`)
  const half = Math.ceil(lines.length / 2)
  const pieces = [`${CSV_COLUMNS}\r\n`, lines.slice(0, half).join(''), lines.slice(half).join('')]
  let next = 0
  return new Response(new ReadableStream({
    pull: controller => {
      try {
        if (next === 2) moment('download')
        if (next === pieces.length) controller.close()
        else controller.enqueue(new TextEncoder().encode(pieces[next++]))
      } catch (error) {
        controller.error(error)
      }
    },
  }))
}
