import { createHash } from 'node:crypto'
import type { TSchema } from 'typebox'
import { Errors } from 'typebox/schema'
import { BalanceSchema, TransactionListSchema, UsageSchema } from '../../../schemas/api/account.ts'
import {
  AcceptedSchema, CreateJobSchema, EXAMPLE_PREFLIGHT, type JobInput,
} from '../../../schemas/api/create-job.ts'
import { EXAMPLE_JOBS, JobSchema } from '../../../schemas/api/job.ts'
import { CreateQuoteSchema, QuoteSchema } from '../../../schemas/api/quote.ts'
import { EXAMPLE_ROW, ResultsSchema } from '../../../schemas/api/results.ts'
import { type ServicesBody, ServicesSchema } from '../../../schemas/api/services.ts'
import { CreateVerificationSchema, VerificationSchema } from '../../../schemas/api/verifications.ts'
import {
  type Client, createClient, type JobStatusResource,
} from '../../../services/client/client.ts'
import { SERVICE_SLUGS } from '../../../services/topology.ts'
import { previewUpload } from '../../support/parse-upload.ts'

type Body = Readonly<Record<string, unknown>>

type FakeJob = {
  readonly id: string
  readonly key: string
  readonly inputs: readonly string[]
  readonly body: Body
  polls: number
}

/** Where a test can end the command; `after POST` is before the response. */
export type Moment = 'POST' | 'after POST' | 'wait' | 'download' | 'quote' | 'cancel'

export type FakeOptions = {
  /** Thrown or returned at the n-th occurrence of a moment, from 1. */
  readonly at?: (moment: Moment, times: number) => Error | Response | undefined
  readonly availableMicros?: number
  readonly priceMicros?: number
  readonly endAs?: string
  /** Counts of each preflight. */
  readonly preflight?: object
  /** The estimate of a quote that wants one. */
  readonly estimate?: object
  /** The reason of each verdict. */
  readonly reason?: string
  /** Fields of a job that has not ended: what waits, its deadline, and its verdicts. */
  readonly waiting?: Pick<JobStatusResource, 'waiting' | 'deadline'> &
    Partial<Pick<JobStatusResource, 'verdicts' | 'reasons'>>
}

const AT = '2026-08-11T10:00:00.000Z'
const common: Omit<ServicesBody['data'][number], 'slug'> = {
  inputKind: 'phone',
  priceMicros: 5,
  columns: [],
  options: [{ name: 'reassigned_number', priceMicros: 1, columns: ['reassigned_number'] }],
  configured: true,
  checks: [],
  limitations: [],
  data: [],
}
const SERVICES: ServicesBody = {
  data: [
    { slug: 'phone-validation', ...common },
    { slug: 'email-validation', ...common, inputKind: 'email', columns: ['normalized'] },
    { slug: 'whatsapp', ...common, configured: false },
  ],
}

/** An example of a part of the description, by default its first. */
export const exampleOf = (schema: TSchema, index = 0): object =>
  (schema as unknown as { readonly examples: readonly object[] }).examples[index]!

/** What the API takes and answers, by the beginning of the request. */
const OPERATIONS: readonly (readonly [line: RegExp, answer: TSchema, body?: TSchema])[] = [
  [/^POST .jobs$/, AcceptedSchema, CreateJobSchema],
  [/^POST .quotes$/, QuoteSchema, CreateQuoteSchema],
  [/^POST .verifications$/, VerificationSchema, CreateVerificationSchema],
  [/^[A-Z]+ .jobs.\w+(.cancel)?(\?|$)/, JobSchema],
  [/^GET .jobs.\w+.results\?.*format=json(&|$)/, ResultsSchema.content['application/json'].schema],
  [/^GET .balance/, BalanceSchema],
  [/^GET .transactions/, TransactionListSchema],
  [/^GET .usage/, UsageSchema],
  [/^GET .services/, ServicesSchema],
]

/** Throws for what the description of the API does not allow. */
function check (schema: TSchema | undefined, value: unknown, what: string): void {
  const json = JSON.parse(JSON.stringify(value))
  const [, [error] = []] = schema === undefined ? [] : Errors(schema, json)
  if (error === undefined) return
  throw new Error(`${what}: ${error.instancePath} ${error.message}`)
}

/** A service of one organization in memory. Its jobs persist over several commands. */
export class FakeService {
  readonly jobs: FakeJob[] = []
  readonly requests: string[] = []
  /** The bodies of quotes. */
  readonly quotes: Body[] = []
  readonly client: Client
  readonly #times = new Map<Moment, number>()
  #options: FakeOptions

  constructor (options: FakeOptions) {
    this.#options = options
    this.client = createClient({
      baseUrl: 'http://there', apiKey: 'vj_live_1', retries: 0, fetch: this.fetch(),
    })
  }

  /** Changes the behavior from now on and resets the counts of moments. */
  change (options: FakeOptions): void {
    this.#options = options
    this.#times.clear()
  }

  /** For the error `Ctrl-C` of a moment: calls `onCtrlC` and never responds. */
  fetch (onCtrlC = () => {}): typeof globalThis.fetch {
    return async (url, init) => {
      const line = `${init?.method} ${String(url).replace(/^http:..[a-z]+(.api.v1)?/, '')}`
      this.requests.push(line)
      const key = new Headers(init?.headers).get('idempotency-key') ?? ''
      try {
        if (line.startsWith('POST /file-previews')) return await preview(line, init?.body)
        const body = init?.body === undefined ? {} : JSON.parse(String(init.body))
        const [, answers, takes] = OPERATIONS.find(([form]) => form.test(line)) ?? []
        check(takes, body, `the body of ${line}`)
        const answer = line.startsWith('POST') ? this.#post(line, key, body) : this.#read(line)
        if (answer instanceof Response) return answer
        check(answers, answer, `the answer of the fake service to ${line}`)
        return new Response(JSON.stringify(answer))
      } catch (error) {
        if (!(error instanceof Error) || error.message !== 'Ctrl-C') throw error
        onCtrlC()
        return await new Promise(() => {})
      }
    }
  }

  /** Throws or returns what the test has for a moment. */
  #moment (name: Moment): Response | undefined {
    const times = (this.#times.get(name) ?? 0) + 1
    this.#times.set(name, times)
    const outcome = this.#options.at?.(name, times)
    if (outcome instanceof Error) throw outcome
    return outcome
  }

  #post (line: string, key: string, body: Body): object {
    const { inputs: items = [] } = body as { readonly inputs?: readonly JobInput[] }
    const inputs = items.map(item => typeof item === 'string' ? item : item.input)
    if (line === 'POST /quotes') {
      this.quotes.push(body)
      const { estimate } = this.#options
      const quote = {
        ...exampleOf(QuoteSchema),
        preflight: this.#preflight(inputs),
        limitations: ['range_only'],
        ...body['sample'] === true && { estimate },
      }
      return this.#moment('quote') ?? quote
    }
    if (!['POST /jobs', 'POST /verifications'].includes(line)) {
      return this.#moment('cancel') ?? this.#read(line)
    }
    const rejection = this.#moment('POST')
    if (rejection !== undefined) return rejection
    const repeated = this.jobs.find(job => job.key === key)
    const job = repeated ?? { id: `job_${this.jobs.length + 1}`, key, inputs, body, polls: 0 }
    if (repeated === undefined) this.jobs.push(job)
    this.#moment('after POST')
    const { id } = job
    const preflight = this.#preflight(inputs)
    if (line === 'POST /jobs') {
      const data = exampleOf(AcceptedSchema.properties.data)
      return { id, status: 'queued', preflight, ok: true, data }
    }
    job.polls = 2
    const { reason = null } = this.#options
    const results = inputs.map((input, index) =>
      ({ ...EXAMPLE_ROW, row: index + 1, input, status: 'valid', reason }))
    return { ...this.#status(job), preflight, results }
  }

  #preflight ({ length }: readonly string[]): object {
    return {
      ...EXAMPLE_PREFLIGHT,
      totalRows: length,
      invalidRows: 0,
      duplicateRows: 0,
      freshChecks: length,
      maxQuoteMicros: length * (this.#options.priceMicros ?? 5),
      ...this.#options.preflight,
    }
  }

  #status ({ id, inputs: { length }, body, polls }: FakeJob): object {
    const { priceMicros = 5, endAs = 'completed' } = this.#options
    const isEnded = polls > 1
    return {
      ...EXAMPLE_JOBS.completed,
      verdicts: null,
      reasons: null,
      id,
      status: isEnded ? endAs : 'verifying',
      totalRows: length,
      service: body['service'],
      successRecords: isEnded ? length : Math.floor(length / 2),
      failedRecords: 0,
      pendingRecords: isEnded ? 0 : Math.ceil(length / 2),
      progressPercent: isEnded ? 100 : 50,
      maxQuoteMicros: length * priceMicros,
      chargedMicros: isEnded ? length * priceMicros : 0,
      releasedMicros: 0,
      completedAt: isEnded ? AT : null,
      ...(!isEnded || endAs === 'verifying') && this.#options.waiting,
    }
  }

  #read (line: string): object {
    const { availableMicros = 1e9, reason = '' } = this.#options
    if (line === 'GET /services') return SERVICES
    if (line === 'GET /balance') {
      return { balanceMicros: availableMicros, reservedMicros: 0, availableMicros, currency: 'USD' }
    }
    if (line.startsWith('GET /transactions')) {
      const { items } = TransactionListSchema.properties.data
      return { data: [exampleOf(items)], has_more: false, next_cursor: null }
    }
    if (line.startsWith('GET /usage')) {
      const csv = 'day,jobs\r\n2026-08-11,2\r\n'
      return line.includes('format=csv') ? new Response(csv) : exampleOf(UsageSchema)
    }
    if (line.startsWith('DELETE /jobs/job_7')) {
      return { ...EXAMPLE_JOBS.completed, id: 'job_7', erasedAt: AT }
    }
    const job = this.jobs.find(({ id }) => line.split('/')[2]?.split('?')[0] === id)
    if (job === undefined) return refusal(404, { code: 'job_not_found', message: 'none' })
    if (line.includes('duplicates=mailbox')) return firstsOfMailboxes(job, line)
    if (line.includes('format=json')) {
      const data = job.inputs.map((input, index) =>
        ({ row: index + 1, input, e164: verdictOf(input), status: 'valid', reason: null }))
      if (!line.includes('format=jsonl')) return { data, has_more: false, next_cursor: null }
      return new Response(data.map(row => `${JSON.stringify(row)}\n`).join(''))
    }
    if (line.includes('/results')) {
      return resultFile(job, { reason, download: () => this.#moment('download') })
    }
    const rejection = this.#moment('wait')
    if (rejection !== undefined) return rejection
    job.polls++
    return this.#status(job)
  }
}

/** The service finds contacts by its own code. */
async function preview (line: string, body: unknown): Promise<Response> {
  const service = SERVICE_SLUGS.find(slug => line.includes(`service=${slug}`))
  const found = await previewUpload(
    Buffer.from(body as Uint8Array), { ...service && { service }, delimiter: ',' })
  return new Response(JSON.stringify(found))
}

export const createFakeService = (options: FakeOptions = {}) => new FakeService(options)

export const refusal = (status: number, error: object) =>
  new Response(JSON.stringify({ error }), { status })

/** The verdict about a contact: a function of the contact. */
export const verdictOf = (input: string) =>
  createHash('sha256').update(input).digest('hex').slice(0, 12)

/** The rows of the first address of each mailbox, without regard to case. */
function firstsOfMailboxes ({ inputs }: FakeJob, line: string): Response {
  if (line.includes('status=risky')) return new Response('')
  const mailboxes = inputs.map(input => input.toLowerCase())
  const rows = mailboxes.flatMap((mailbox, index) =>
    mailboxes.indexOf(mailbox) === index ? [`{"row":${index + 1}}\n`] : [])
  return new Response(rows.join(''))
}

/** The result file in three pieces; the download is interrupted before the last one. */
function resultFile (
  { inputs, body: { options = [] } }: FakeJob,
  { reason, download }: { readonly reason: string, download: () => unknown }
): Response {
  const quote = (text: string) => `"${text.replaceAll('"', '""')}"`
  const added = (options as readonly string[]).map(option => option.split(':')[0])
  const lines = inputs.map((input, index) => [
    index + 1, quote(input), verdictOf(input), 'valid', quote(reason), index > 0 ? 1 : '',
    ...added.map(() => 'true'),
  ].join())
  const half = Math.ceil(lines.length / 2)
  const header = ['row', 'input', 'e164', 'status', 'reason', 'duplicate_of', ...added]
  const pieces = [[header.join()], lines.slice(0, half),
    lines.slice(half)].map(piece => piece.map(line => `${line}\r\n`).join(''))
  let next = 0
  return new Response(new ReadableStream({
    pull: controller => {
      try {
        if (next === 2) download()
        if (next === pieces.length) controller.close()
        else controller.enqueue(new TextEncoder().encode(pieces[next++]))
      } catch (error) {
        controller.error(error)
      }
    },
  }))
}
