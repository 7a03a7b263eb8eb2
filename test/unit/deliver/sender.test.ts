import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { performance } from 'node:perf_hooks'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { createSender } from '../../../services/deliver/sender.ts'
import { startOddReceivers } from '../../support/webhooks/odd-receivers.ts'
import { startReceiver } from '../../support/webhooks/receiver.ts'

const open = { allowHttp: true, allowLoopback: true, timeoutMs: 300_000 }
const request = { headers: { 'content-type': 'application/json', 'x-a': 'b' }, body: '{"a":"é"}' }
const send = async (url: string, options: object = {}) =>
  (await createSender({ ...open, ...options })(url, request)).answer
const answered = (status: number, retryAfterMs?: number) =>
  ({ kind: 'answered', status, retryAfterMs })
const failed = (reason: string) => ({ kind: 'failed', reason })

const receiver = await startReceiver((response, { path }) => {
  const [, status = '200'] = path.replace(/\?.*/, '').split('/')
  if (status === 'hang') return
  if (status === 'endless') {
    response.writeHead(200)
    const write = () => { while (!response.destroyed && response.write('x'.repeat(4_096))); }
    response.on('drain', write)
    return write()
  }
  if (status === 'stall') return response.writeHead(200).write('a')
  if (status === '429') response.setHeader('retry-after', '7')
  if (status === '302') response.setHeader('location', '/no')
  response.writeHead(Number(status)).end('text')
})
const url = `http://127.0.0.1:${receiver.port}`
const odd = await startOddReceivers()

/** Ends the time of the next attempt as soon as it has the headers of a response. */
function endTimeAtHead (): void {
  const over = new AbortController()
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(over.signal)
  const end = () => { setImmediate(() => over.abort(new DOMException('over', 'TimeoutError'))) }
  subscribe('undici:request:headers', end)
  onTestFinished(() => {
    unsubscribe('undici:request:headers', end)
    timeout.mockRestore()
  })
}

describe('a webhook sender', () => {
  it('posts headers and body unchanged', async () => {
    expect(await send(`${url}/200?x=%20y`)).toEqual(answered(200))
    const [got] = await receiver.until(1, '/200?x=%20y')
    expect(got).toMatchObject({ body: request.body, headers: { 'x-a': 'b' } })
    expect(got?.headers)
      .toMatchObject({ host: `127.0.0.1:${receiver.port}`, 'content-length': '10' })
  })

  it('returns the status and Retry-After of the response', async () => {
    expect(await send(`${url}/503`)).toEqual(answered(503))
    expect(await send(`${url}/429`)).toEqual(answered(429, 7_000))
    expect(await send(`${url}/410`)).toEqual(answered(410))
  })

  it('follows no redirect', async () => {
    expect(await send(`${url}/302`)).toEqual(answered(302))
    expect(receiver.received.filter(({ path }) => path === '/no')).toEqual([])
  })

  it.each([
    ['sends a gigabyte', answered(200)],
    ['sends a bomb', answered(200)],
    ['resets in its body', answered(200)],
    ['sends headers without end', failed('connection_error')],
    ['changes the protocol', failed('connection_error')],
    ['is garbage', failed('connection_error')],
    ['leaves at once', failed('connection_error')],
    ['resets', failed('connection_error')],
  ])('is held up by no receiver that %s', async (name, answer) => {
    expect(await send(`http://127.0.0.1:${odd.ports[name]}/`)).toEqual(answer)
    // It is disconnected once its response is known.
    expect(odd.pouredBytes()).toBeLessThan(64 * 1_024 * 1_024)
  })

  it('takes the final response after interim ones, which it did not ask for', async () => {
    const address = `http://127.0.0.1:${odd.ports['continues first']}/`
    expect(await send(address)).toEqual(answered(202))
  })

  it('returns the status of a response with an endless or stalled body', async () => {
    expect(await send(`${url}/endless`)).toEqual(answered(200))
    endTimeAtHead()
    expect(await send(`${url}/stall`)).toEqual(answered(200))
  })

  it('ends an attempt after its timeout and measures its duration', async () => {
    const startedMs = performance.now()
    const { answer, durationMs } =
      await createSender({ ...open, timeoutMs: 100 })(`${url}/hang`, request)
    expect(answer).toEqual(failed('timeout'))
    expect(durationMs).toBeGreaterThanOrEqual(95)
    expect(durationMs).toBeLessThanOrEqual(performance.now() - startedMs)
  })
})

/** Concurrent, because the client checks connection timeouts only twice a second. */
describe.concurrent('the timeout of a webhook attempt', () => {
  it('ends an unanswered name resolution', async () => {
    const resolve = () => new Promise<never>(() => {})
    expect(await send('http://a.example/', { timeoutMs: 100, resolve })).toEqual(failed('timeout'))
  })

  it('ends a TLS handshake that hangs', async () => {
    const address = `https://127.0.0.1:${odd.ports.hangs}/`
    expect(await send(address, { timeoutMs: 100 })).toEqual(failed('timeout'))
  })

  it.each(['drips its head', 'hangs', 'sends hints without end', 'continues without end'])(
    'ends an attempt to a receiver that %s', async name => {
      const address = `http://127.0.0.1:${odd.ports[name]}/`
      expect((await send(address, { timeoutMs: 100 })).kind).toBe('failed')
    })
})

it('a webhook sender resolves localhost without DNS', async () => {
  const options = { dnsServers: ['127.0.0.1:9'] }
  for (const name of ['localhost', 'A.LocalHost.']) {
    expect(await send(`http://${name}:${receiver.port}/200`, options)).toEqual(answered(200))
  }
})

describe('a failed webhook attempt', () => {
  it('has the reason dns_error for a name without an address', async () => {
    const resolve = async () => []
    expect(await send('http://a.example/', { resolve })).toEqual(failed('dns_error'))
  })

  it('has the reason connection_error or tls_error without HTTP or TLS', async () => {
    const { 'is not trusted': untrusted } = odd.ports
    expect(await send(`https://127.0.0.1:${untrusted}/`)).toEqual(failed('tls_error'))
    expect(await send(`https://127.0.0.1:${receiver.port}/`)).toEqual(failed('tls_error'))
    expect(await send('http://127.0.0.1:1/')).toEqual(failed('connection_error'))
    expect(await send('nonsense')).toEqual(failed('connection_error'))
  })
})
