import { createServer } from 'node:http'
import { describe, expect, it } from 'vitest'
import { failureMessage } from '../../../services/client/terminal.ts'
import {
  ApiError, ConnectionError, createTransport, isLostConnection, readJson, retryWhileUnavailable,
  type TransportOptions,
} from '../../../services/client/transport.ts'
import { listen } from '../../support/listen.ts'

const refusal = (status: number, headers: Record<string, string> = {}) =>
  new Response('{"error":{"code":"c","message":"m","param":"p","request_id":"req_1"}}',
    { status, headers })
const success = new Response('{}')
const lost = new TypeError('fetch failed')

type Call = NonNullable<Parameters<ReturnType<typeof createTransport>>[1]>

/** Returns the answers in order; records the requests and the waits between them. */
async function exchange (
  answers: readonly (Response | Error)[], call?: Call, more: Partial<TransportOptions> = {}
) {
  const sent: { readonly url: string, readonly init: RequestInit }[] = []
  const waits: number[] = []
  const transport = createTransport({
    baseUrl: 'http://there/api/v1',
    apiKey: 'vj_test_1',
    random: () => 0.5,
    pause: async milliseconds => { waits.push(milliseconds) },
    fetch: async (url, init) => {
      const answer = answers[sent.length] ?? answers.at(-1)
      sent.push({ url: String(url), init: init ?? {} })
      if (answer instanceof Response) return answer.clone()
      throw answer
    },
    ...more,
  })
  const outcome = await transport('/jobs', call).catch((error: unknown) => error)
  return { sent, waits, outcome }
}

describe('a request of the API client', () => {
  it.each<[status: number, times: number, timesIfNotRepeatable: number]>([
    [408, 2, 2], [429, 2, 2], [503, 2, 2], [502, 2, 1], [504, 2, 1],
    [400, 1, 1], [401, 1, 1], [404, 1, 1], [409, 1, 1], [500, 1, 1],
  ])('is sent after status %i %i times, or %i if it is not repeatable', async (...row) => {
    const [status, ...times] = row
    const calls: readonly Call[] = [{ body: { a: 1 } }, { body: { a: 1 }, repeatable: false }]
    const refused = refusal(status, { 'retry-after': '3' })
    for (const [index, call] of calls.entries()) {
      const { sent, outcome } = await exchange([refused, success], call)
      expect(sent.map(({ init }) => init.body)).toEqual(Array(times[index]).fill('{"a":1}'))
      expect(sent[0]?.init.headers)
        .toMatchObject({ authorization: 'Bearer vj_test_1', 'content-type': 'application/json' })
      const error = {
        status,
        code: 'c',
        param: 'p',
        requestId: 'req_1',
        retryAfterSeconds: 3,
        message: `${status} c: m`,
      }
      if (times[index] === 2) expect(outcome).toBeInstanceOf(Response)
      else expect(outcome).toMatchObject(error)
    }
  })

  it.each([
    ['a lost response', lost, {}, 2], ['a lost response', lost, { repeatable: false }, 1],
    ['a bug', new RangeError('no'), {}, 1],
  ])('after %s is sent again only if it is repeatable', async (_, error, call, times) => {
    const { sent } = await exchange([error, success], call)
    expect(sent).toHaveLength(times)
  })

  it.each([[{}, 2], [{ repeatable: false }, 1]])(
    'with %j whose JSON breaks off is sent %i times', async (call, times) => {
      const server = createServer((_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '11' })
        if (sent++ > 0) return response.end('{"id":"a1"}')
        response.write('{"id":')
        setTimeout(() => response.destroy(), 20)
      })
      let sent = 0
      const baseUrl = `http://127.0.0.1:${await listen(server)}`
      const transport = createTransport({ baseUrl, apiKey: 'vj_test_1', pause: async () => {} })
      const outcome = await readJson(transport('/jobs', call)).catch((error: unknown) => error)
      server.close()
      expect(sent).toBe(times)
      expect(times === 2 ? outcome : isLostConnection(outcome))
        .toEqual(times === 2 ? { id: 'a1' } : true)
    })

  it('fails when every attempt exceeds the time limit', async () => {
    const never = async (_url: unknown, init?: RequestInit) =>
      new Promise<Response>((_resolve, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason))
      })
    const { waits, outcome } = await exchange([], {}, { fetch: never, timeoutMs: 5, retries: 1 })
    expect([String(outcome), waits.length]).toEqual(['TimeoutError: no response from ' +
      'http://there/api/v1 within 5 ms. Check the address, and whether a firewall or proxy is in ' +
      'the way.', 1])
  })
})

describe('an unreachable service', () => {
  const CASES = [
    ['ECONNREFUSED', 2, 'nothing listens there'],
    ['ENOTFOUND', 2, 'its name cannot be resolved'],
    ['UND_ERR_CONNECT_TIMEOUT', 2, 'it does not answer'],
    ['UND_ERR_SOCKET', 2, 'the connection was lost'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 1, 'set NODE_EXTRA_CA_CERTS'],
    ['CERT_HAS_EXPIRED', 1, 'its certificate is not trusted'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 1, 'for another name'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 1, 'does not speak TLS'],
  ] as const

  it.each(CASES)('with %s is tried %i times and named with advice', async (code, times, advice) => {
    const cause = Object.assign(new Error('secret vj_test_1'), { code })
    const failed = () => new TypeError('fetch failed', { cause })
    const { sent, outcome } = await exchange([failed(), failed()], {}, { retries: 1 })
    expect([sent.length, outcome]).toEqual([times, expect.any(ConnectionError)])
    expect(isLostConnection(outcome)).toBe(true)
    const message = failureMessage(outcome) ?? ''
    expect(message.startsWith(`http://there/api/v1 is unreachable (${code}): `)).toBe(true)
    expect(message).toContain(advice)
    expect(message).not.toContain('secret')
  })

  it('whose base URL has a password is refused without it', () => {
    const create = () => createTransport({ baseUrl: 'http://me:s3cret@there/api', apiKey: 'k' })
    expect(create).toThrow(/^baseUrl http:..there must not contain a user or password/)
  })
})

describe('the wait between two attempts of a request', () => {
  it('is a random part of a backoff that doubles up to ten seconds', async () => {
    const { sent, waits, outcome } = await exchange([refusal(503)], {}, { retries: 8 })
    expect(waits).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000])
    expect([sent.length, (outcome as ApiError).status]).toEqual([9, 503])
    const still = await exchange([refusal(503)], {}, { retries: 2, random: () => 0 })
    expect(still.waits).toEqual([0, 0])
  })

  it('is never shorter than Retry-After', async () => {
    const { waits } = await exchange([refusal(429, { 'retry-after': '7' })], {}, { retries: 2 })
    expect(waits).toEqual([7_100, 7_200])
  })

  it('is at most a minute: a refusal that asks for more is thrown', async () => {
    const minute = await exchange([refusal(429, { 'retry-after': '60' }), success])
    expect(minute.waits).toEqual([60_100])
    const { sent, waits, outcome } = await exchange([refusal(429, { 'retry-after': '61' })])
    expect([sent.length, waits]).toEqual([1, []])
    expect(outcome).toMatchObject({ status: 429, retryAfterSeconds: 61 })
  })
})

it('an error response of a proxy is reported with the beginning of its body', () => {
  const error = new ApiError(new Response(null, { status: 502 }), '<h1>proxy</h1>')
  expect(error).toMatchObject({
    code: 'unknown',
    message: '502 unknown: <h1>proxy</h1>',
    requestId: undefined,
    retryAfterSeconds: undefined,
  })
})

describe('a command retry while the service is unavailable', () => {
  const failure = (status: number, code: string) =>
    new ApiError(new Response(null, { status }), JSON.stringify({ error: { code, message: 'm' } }))

  async function outcomeOf (error: unknown, times: number) {
    const messages: string[] = []
    let nowMs = 0
    let tries = 0
    const action = async () => {
      if (++tries > times) return 'done'
      throw error
    }
    const outcome = await retryWhileUnavailable(action, {
      say: line => { messages.push(line) },
      now: () => nowMs,
      pause: async ms => { nowMs += ms },
    }).catch((error: unknown) => error)
    return { outcome, messages, tries, nowMs }
  }

  it('waits longer each time and reports the reason once', async () => {
    const { outcome, messages, nowMs } = await outcomeOf(failure(503, 'temporarily_unavailable'), 6)
    expect([outcome, nowMs]).toEqual(['done', 1_000 + 2_000 + 4_000 + 8_000 + 15_000 + 15_000])
    expect(messages)
      .toEqual(['The service is unavailable (503 temporarily_unavailable); retrying.'])
    expect((await outcomeOf(new TypeError('fetch failed'), 1)).messages)
      .toEqual(['The service does not respond; retrying.'])
  })

  it('ends after 15 minutes, or after 12 hours at the limit of concurrent jobs', async () => {
    const away = failure(503, 'c')
    expect(await outcomeOf(away, Infinity)).toMatchObject({ outcome: away, nowMs: 900_000 })
    const full = failure(429, 'concurrent_jobs_limit')
    expect(await outcomeOf(full, Infinity)).toMatchObject({ outcome: full, nowMs: 43_200_000 })
  })

  it.each([failure(404, 'c'), failure(500, 'c'), new TypeError('x is not a function')])(
    'does not happen after %s', async error => {
      expect(await outcomeOf(error, Infinity))
        .toMatchObject({ outcome: error, tries: 1, messages: [] })
      expect(isLostConnection(error)).toBe(false)
    })
})
