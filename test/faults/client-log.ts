import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  ApiError, createClient, type Client, type JobRequest, type ResultRow,
} from '../../services/client/client.ts'
import { poll } from './poll.ts'

/** One answer, or that there was none: status 0. */
export type Answer = {
  readonly atMs: number
  readonly method: string
  readonly path: string
  readonly status: number
  readonly retryAfter: string | null
  /** Why there was none, by the code of the connection's failure. */
  readonly failure?: string
}

/** A job that was promised by a 202. */
export type Promised = {
  readonly id: string
  readonly key: string
  readonly request: JobRequest
  readonly acceptedAtMs: number
  /** The rows of the answer to a client that waited for them; empty for others. */
  readonly results: readonly ResultRow[]
}

/** The rows that a client has of a job that it reads while it runs, and where it stands. */
type ReadRows = { readonly rows: ResultRow[], cursor: string | undefined }

export type ClientLog = {
  readonly answers: readonly Answer[]
  readonly promised: readonly Promised[]
  /** Posts that were refused, or given up: what was sent, and why. */
  readonly lost: readonly string[]
  /** Two different jobs of one key. */
  readonly doubles: readonly string[]
  readonly client: Client
  /** By job. */
  readonly readRows: ReadonlyMap<string, ReadRows>
  /** Reads the rows of a job that are complete and new to its reader. False if that broke off. */
  readonly readOn: (id: string) => Promise<boolean>
  /**
   * Posts as a careful client does: with one key, again for as long as the service can't be reached
   * or says not now. With `twice` a second request with the same key goes along; with `waits` the
   * answer to a small job has its rows if it ends soon.
   */
  readonly post: (
    request: JobRequest, options?: PostOptions
  ) => Promise<Promised | undefined>
  /** Resolves with the moment of the first 202 after one. */
  readonly nextAccepted: (afterMs: number, withinMs: number) => Promise<number | undefined>
}

type PostOptions = {
  readonly twice?: boolean
  readonly waits?: boolean
}

/** Larger jobs are not answered with their rows. */
const MAX_WAITING_ROWS = 100
const WAIT_SECONDS = 5

type Made = { readonly id: string, readonly results?: readonly ResultRow[] }

const CAREFUL_FOR_MS = 240_000
const MAX_PAUSE_MS = 5_000

export type ClientLogOptions = {
  /** Base URLs of the API, used round-robin, as by a load balancer without health checks. */
  readonly baseUrls: () => readonly string[]
  readonly apiKey: string
  readonly random: () => number
}

/** A client that records all responses. */
export function createClientLog (
  { baseUrls, apiKey, random }: ClientLogOptions
): ClientLog {
  const answers: Answer[] = []
  const promised: Promised[] = []
  const lost: string[] = []
  const doubles: string[] = []
  const [baseUrl = ''] = baseUrls()
  const fetch = noted(answers, baseUrls)
  const client = createClient({ baseUrl, apiKey, retries: 0, fetch })
  const verify = createVerify(fetch, { baseUrl, apiKey })

  const careful = async (
    request: JobRequest, key: string, { waits = false }: PostOptions
  ) => {
    const isWaiting = waits && request.inputs.length <= MAX_WAITING_ROWS
    const send: (request: JobRequest, key: string) => Promise<Made> =
      isWaiting ? verify : client.createJob
    for (const giveUpAt = Date.now() + CAREFUL_FOR_MS; ;) {
      try {
        return await send(request, key)
      } catch (error) {
        const waitMs = pauseMs(error, random)
        if (waitMs !== undefined && Date.now() + waitMs < giveUpAt) await sleep(waitMs)
        else {
          lost.push(`${request.inputs.length} rows of ${request.service}: ${String(error)}`)
          return undefined
        }
      }
    }
  }
  const post: ClientLog['post'] = async (request, options = {}) => {
    const { twice = false } = options
    const key = randomUUID()
    const made = await Promise.all(
      (twice ? [1, 2] : [1]).map(() => careful(request, key, options)))
    const ids = new Set(made.flatMap(one => one === undefined ? [] : [one.id]))
    if (ids.size > 1) doubles.push(`${key}: ${[...ids].join(' and ')}`)
    const results = made.find(one => one?.results !== undefined)?.results ?? []
    const all = [...ids].map(id => ({ id, key, request, acceptedAtMs: Date.now(), results }))
    promised.push(...all)
    return all[0]
  }
  const readRows = new Map<string, ReadRows>()
  const readOn: ClientLog['readOn'] = async id => {
    const reader = readRows.get(id) ?? { rows: [], cursor: undefined }
    readRows.set(id, reader)
    const { cursor: after } = reader
    try {
      for await (const row of client.completeRows(id, after === undefined ? {} : { after })) {
        reader.rows.push(row)
        reader.cursor = row.cursor
      }
      return true
    } catch (error) {
      // The rows were counted again, in another order.
      if (error instanceof ApiError && error.code === 'cursor_moved') readRows.delete(id)
      return false
    }
  }
  const nextAccepted: ClientLog['nextAccepted'] = (afterMs, withinMs) => poll(() =>
    answers.find(({ status, method, atMs }) =>
      (status === 202 || (status === 200 && method === 'POST')) && atMs > afterMs)?.atMs, withinMs)
  return { answers, promised, lost, doubles, client, readRows, readOn, post, nextAccepted }
}

/** Sends a job whose answer waits for its rows. */
function createVerify (
  fetch: typeof globalThis.fetch, { baseUrl, apiKey }: { baseUrl: string, apiKey: string }
) {
  return async (request: JobRequest, key: string): Promise<Made> => {
    const response = await fetch(`${baseUrl}/verifications`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${apiKey}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body: JSON.stringify({ ...request, wait: WAIT_SECONDS }),
    })
    const text = await response.text()
    if (!response.ok) throw new ApiError(response, text)
    return JSON.parse(text) as Made
  }
}

function noted (
  answers: Answer[], baseUrls: ClientLogOptions['baseUrls']
): typeof fetch {
  let turn = 0
  return async (input, init) => {
    const url = new URL(String(input))
    const { pathname: path } = url
    const addresses = baseUrls()
    url.host = new URL(addresses[turn++ % addresses.length] ?? url).host
    const method = init?.method ?? 'GET'
    try {
      const response = await fetch(url, init)
      const { status, headers } = response
      const retryAfter = headers.get('retry-after')
      answers.push({ atMs: Date.now(), method, path, status, retryAfter })
      return response
    } catch (error) {
      const failure = failureOf(error)
      answers.push({ atMs: Date.now(), method, path, status: 0, retryAfter: null, failure })
      throw error
    }
  }
}

function failureOf (error: unknown): string {
  const { cause } = error as Error
  return cause instanceof Error && 'code' in cause ? String(cause.code) : String(error)
}

/** How long a careful client waits before it asks again; undefined for what asking won't change. */
function pauseMs (error: unknown, random: () => number): number | undefined {
  const jitterMs = 100 + random() * 300
  if (!(error instanceof ApiError)) return jitterMs
  if (![429, 503].includes(error.status)) return undefined
  return Math.min((error.retryAfterSeconds ?? 0) * 1_000, MAX_PAUSE_MS) + jitterMs
}
