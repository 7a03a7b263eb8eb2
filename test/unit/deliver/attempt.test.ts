import { createServer } from 'node:net'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { createSender } from '../../../services/deliver/attempt.ts'
import { startOddReceivers } from '../../support/odd-receivers.ts'
import { startReceiver } from '../../support/receiver.ts'

const open = { allowHttp: true, allowLoopback: true, timeoutMs: 2_000 }
const request = { headers: { 'content-type': 'application/json', 'x-a': 'b' }, body: '{"a":"é"}' }
const send = async (url: string, options: object = {}) =>
  (await createSender({ ...open, ...options })(url, request)).answer
const answered = (status: number, retryAfterMs?: number) =>
  ({ kind: 'answered', status, retryAfterMs })
const failed = (reason: string) => ({ kind: 'failed', reason })

const receiver = await startReceiver((response, { path }) => {
  const [, status = '200', location] = path.replace(/\?.*/, '').split('/')
  if (status === 'hang') return
  if (status === 'endless') {
    response.writeHead(200)
    const write = () => { while (!response.destroyed && response.write('x'.repeat(4_096))); }
    response.on('drain', write)
    return write()
  }
  if (status === 'stall') return response.writeHead(200).write('a')
  if (location !== undefined) response.setHeader('location', `/${location}`)
  if (status === '429') response.setHeader('retry-after', '7')
  response.writeHead(Number(status)).end('text')
})
const url = `http://127.0.0.1:${receiver.port}`
const odd = await startOddReceivers()

describe('an attempt', () => {
  it('posts headers and body as they are', async () => {
    expect(await send(`${url}/200?x=%20y`)).toEqual(answered(200))
    const [got] = await receiver.until(1, '/200?x=%20y')
    expect(got).toMatchObject({ body: request.body, headers: { 'x-a': 'b' } })
    expect(got?.headers)
      .toMatchObject({ host: `127.0.0.1:${receiver.port}`, 'content-length': '10' })
  })

  it('says which status came, and what was asked for', async () => {
    expect(await send(`${url}/503`)).toEqual(answered(503))
    expect(await send(`${url}/429`)).toEqual(answered(429, 7_000))
    expect(await send(`${url}/410`)).toEqual(answered(410))
  })

  it.each([301, 302, 303, 307, 308])('does not follow a %i', async status => {
    expect(await send(`${url}/${status}/secret`)).toEqual(answered(status))
    expect(receiver.received.filter(({ path }) => path === '/secret')).toEqual([])
  })

  it('takes the status for the answer, however long the body is', async () => {
    expect(await send(`${url}/endless`)).toEqual(answered(200))
    expect(await send(`${url}/stall`, { timeoutMs: 200 })).toEqual(answered(200))
  })

  it('ends after its time, and measures it', async () => {
    const { answer, durationMs } =
      await createSender({ ...open, timeoutMs: 100 })(`${url}/hang`, request)
    expect(answer).toEqual(failed('timeout'))
    expect(durationMs).toBeGreaterThanOrEqual(95)
    expect(durationMs).toBeLessThan(1_500)
  })

  it('ends after its time where a name is never answered for', async () => {
    const resolve = () => new Promise<never>(() => {})
    expect(await send('http://a.example/', { timeoutMs: 100, resolve })).toEqual(failed('timeout'))
  })
})

describe('a receiver that wants to keep its connection', () => {
  it.each(['drips its head', 'hangs', 'sends hints without end'])(
    'is left after the time of an attempt when it %s', async name => {
      const address = `http://127.0.0.1:${odd.ports[name]}/`
      const sender = createSender({ ...open, timeoutMs: 400 })
      const { answer, durationMs } = await sender(address, request)
      expect(answer.kind).toBe('failed')
      expect(durationMs).toBeLessThan(10_000)
    })

  it('has delivered with its status, however slowly the rest comes', async () => {
    const address = `http://127.0.0.1:${odd.ports['drips its body']}/`
    const sender = createSender({ ...open, timeoutMs: 1_500 })
    const { answer, durationMs } = await sender(address, request)
    expect(answer).toEqual(answered(200))
    expect(durationMs).toBeLessThan(10_000)
  })

  it('is left when it does not come to TLS', async () => {
    const address = `https://127.0.0.1:${odd.ports.hangs}/`
    expect(await send(address, { timeoutMs: 300 })).toEqual(failed('timeout'))
  })
})

describe('an attempt that fails', () => {
  it('says of a name that it leads nowhere', async () => {
    const resolve = async () => []
    expect(await send('http://a.example/', { resolve })).toEqual(failed('dns_error'))
  })

  it('says that nobody listens, or speaks another language', async () => {
    const rude = createServer(socket => socket.end('220 mail.example ESMTP\r\n'))
    rude.listen(0, '127.0.0.1')
    await once(rude, 'listening')
    afterAll(() => { rude.close() })
    const { port } = rude.address() as AddressInfo
    expect(await send(`http://127.0.0.1:${port}/`)).toEqual(failed('connection_error'))
    expect(await send(`https://127.0.0.1:${receiver.port}/`)).toEqual(failed('tls_error'))
    expect(await send('http://127.0.0.1:1/')).toEqual(failed('connection_error'))
    expect(await send('nonsense')).toEqual(failed('connection_error'))
  })
})
