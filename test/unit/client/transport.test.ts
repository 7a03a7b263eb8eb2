import { describe, expect, it } from 'vitest'
import { ApiError } from '../../../services/client/api-error.ts'
import {
  createTransport, type Call, type TransportOptions,
} from '../../../services/client/transport.ts'

type Answer = Response | Error
type Sent = { readonly url: string, readonly init: RequestInit }

const refusal = (status: number, headers: Record<string, string> = {}) =>
  new Response('{"error":{"code":"c","message":"m","param":"p","request_id":"req_1"}}',
    { status, headers })
const lost = () => new TypeError('fetch failed')

/** Gives the answers one after another; notes what was sent and how long was waited between. */
async function exchange (answers: readonly Answer[], call?: Call, more: object = {}) {
  const sent: Sent[] = []
  const waits: number[] = []
  const options: TransportOptions = {
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
  }
  const outcome = await createTransport(options)('/jobs', call).catch((error: unknown) => error)
  return { sent, waits, outcome }
}

describe('a request', () => {
  it('carries key, headers and body, and is sent once when it is served', async () => {
    const { sent, waits, outcome } = await exchange([new Response('{}')], {
      method: 'POST', headers: { 'x-a': 'b' }, body: { c: 1 },
    })
    expect(sent).toMatchObject([{
      url: 'http://there/api/v1/jobs',
      init: {
        method: 'POST',
        headers: {
          authorization: 'Bearer vj_test_1', 'content-type': 'application/json', 'x-a': 'b',
        },
        body: '{"c":1}',
      },
    }])
    expect(waits).toEqual([])
    expect(outcome).toBeInstanceOf(Response)
  })

  it.each([408, 429, 502, 503, 504])('is sent again after %i', async status => {
    const { sent, outcome } = await exchange([refusal(status), new Response('{}')])
    expect(sent.length).toBe(2)
    expect(outcome).toBeInstanceOf(Response)
  })

  it.each([400, 401, 402, 403, 404, 409, 410, 413, 422, 500])('ends with %i', async s => {
    const { sent, outcome } = await exchange([refusal(s, { 'retry-after': '3' })])
    expect(sent.length).toBe(1)
    expect(outcome).toBeInstanceOf(ApiError)
    expect(outcome).toMatchObject({
      status: s,
      code: 'c',
      param: 'p',
      requestId: 'req_1',
      retryAfterSeconds: 3,
      message: `${s} c: m`,
    })
  })

  it('is sent again with the same body after its answer was lost', async () => {
    const { sent, outcome } = await exchange([lost(), new Response('{}')], { body: { a: 1 } })
    expect(sent.map(({ init }) => init.body)).toEqual(['{"a":1}', '{"a":1}'])
    expect(outcome).toBeInstanceOf(Response)
  })

  it('is given up when no answer comes in time, again and again', async () => {
    const never = async (_url: unknown, init?: RequestInit) =>
      new Promise<Response>((_resolve, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason))
      })
    const { waits, outcome } = await exchange([], {}, { fetch: never, timeoutMs: 5, retries: 1 })
    expect(String(outcome)).toBe('TimeoutError: no answer within 5 ms')
    expect(waits.length).toBe(1)
  })

  it('that must not be done twice is sent again only when it was refused', async () => {
    const call = { repeatable: false } as const
    for (const passing of [lost(), refusal(502), refusal(504)]) {
      expect((await exchange([passing, new Response('{}')], call)).sent.length).toBe(1)
    }
    for (const passing of [refusal(429), refusal(503)]) {
      expect((await exchange([passing, new Response('{}')], call)).sent.length).toBe(2)
    }
  })

  it('that fails by a mistake of the program is not sent again', async () => {
    const { sent, outcome } = await exchange([new RangeError('no')])
    expect([sent.length, String(outcome)]).toEqual([1, 'RangeError: no'])
  })
})

describe('the wait between two tries', () => {
  it('is random below a step that doubles up to ten seconds', async () => {
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

  it('is left out when tries are turned off', async () => {
    const { sent, waits } = await exchange([lost()], {}, { retries: 0 })
    expect([sent.length, waits]).toEqual([1, []])
  })
})

describe('an answer that is none of the service', () => {
  it('is told by its beginning', () => {
    const error = new ApiError(new Response(null, { status: 502 }), '<h1>proxy</h1>')
    expect(error).toMatchObject({
      code: 'unknown',
      message: '502 unknown: <h1>proxy</h1>',
      requestId: undefined,
      retryAfterSeconds: undefined,
    })
  })
})
