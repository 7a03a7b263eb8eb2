/** What POST /api/v1/jobs takes; the meaning of each field is in the API reference. */
export type JobRequest = {
  readonly service: string
  readonly inputs: readonly string[]
  readonly countryCode?: string
  readonly forceFresh?: boolean
  readonly webhook_url?: string
  readonly metadata?: Readonly<Record<string, string>>
}

export type Created = {
  readonly id: string
  readonly status: string
  readonly preflight: {
    readonly totalRows: number
    readonly invalidRows: number
    readonly duplicateRows: number
    readonly cacheHits: number
    readonly freshChecks: number
    readonly maxQuoteMicros: number
    readonly quoteId: string
  }
}

export type JobStatusResource = {
  readonly id: string
  readonly service: string
  readonly status: string
  readonly totalRows: number
  readonly invalidRows: number
  readonly duplicateRows: number
  readonly cacheHits: number
  readonly freshRecords: number
  readonly successRecords: number
  readonly failedRecords: number
  readonly progressPercent: number
  readonly maxQuoteMicros: number
  readonly chargedMicros: number
  readonly releasedMicros: number
  readonly createdAt: string
  readonly updatedAt: string
  readonly completedAt?: string | null
  readonly resultUrl: string
  readonly metadata?: Readonly<Record<string, string>>
}

/** An answer of the service that is not a success, with the code of its error table. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly retryAfterSeconds: number | undefined

  constructor (response: Response, body: string) {
    const { code, message } = errorOf(body)
    super(`${response.status} ${code}: ${message}`)
    this.status = response.status
    this.code = code
    const retryAfter = response.headers.get('retry-after')
    this.retryAfterSeconds = retryAfter === null ? undefined : Number(retryAfter)
  }
}

function errorOf (body: string): { code: string, message: string } {
  try {
    const { error } = JSON.parse(body) as { error: { code?: string, message: string } }
    return { code: error.code ?? 'unknown', message: error.message }
  } catch {
    return { code: 'unknown', message: body.slice(0, 200) }
  }
}

export type ClientOptions = {
  /** Service base address, ending in `/api/v1`. */
  readonly baseUrl: string
  readonly apiKey: string
}

export type WaitOptions = {
  readonly onProgress?: (job: JobStatusResource) => void
  readonly pollEveryMs?: number
  readonly timeoutMs?: number
}

const ENDED = ['completed', 'cancelled', 'failed']
const pause = (milliseconds: number) => new Promise(resolve => setTimeout(resolve, milliseconds))

/**
 * A client of the REST interface. Every method resolves with the answer of a success and throws
 * `ApiError` for every other answer; nothing is retried.
 */
export function createClient ({ baseUrl, apiKey }: ClientOptions) {
  const request = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = { authorization: `Bearer ${apiKey}`, ...init.headers }
    const response = await fetch(`${baseUrl}${path}`, { ...init, headers })
    if (!response.ok) throw new ApiError(response, await response.text())
    return response
  }

  const createJob = async (body: JobRequest, idempotencyKey?: string): Promise<Created> => {
    const headers = {
      'content-type': 'application/json',
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    }
    const response = await request('/jobs', { method: 'POST', headers, body: JSON.stringify(body) })
    return await response.json() as Created
  }

  const job = async (id: string) =>
    await (await request(`/jobs/${id}`)).json() as JobStatusResource

  const results = async (id: string): Promise<string> =>
    await (await request(`/jobs/${id}/results`)).text()

  /** Polls until the job has ended; throws when that takes longer than `timeoutMs` (10 minutes). */
  const waitForEnd = async (id: string, options: WaitOptions = {}): Promise<JobStatusResource> => {
    const { onProgress = () => {}, pollEveryMs = 100, timeoutMs = 600_000 } = options
    const giveUpAt = Date.now() + timeoutMs
    for (;;) {
      const now = await job(id)
      onProgress(now)
      if (ENDED.includes(now.status)) return now
      if (Date.now() > giveUpAt) {
        throw new Error(`${id} is still ${now.status} after ${timeoutMs} ms`)
      }
      await pause(pollEveryMs)
    }
  }

  return { createJob, job, results, waitForEnd }
}

export type Client = ReturnType<typeof createClient>
