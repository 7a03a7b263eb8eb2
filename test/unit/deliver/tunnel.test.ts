import { createServer } from 'node:https'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, describe, expect, it } from 'vitest'
import { selfSigned } from '../../../deploy/local/certificate.ts'
import { createSender, isProxyUrl } from '../../../services/deliver/sender.ts'
import { eventually } from '../../support/eventually.ts'
import { startHttpProxy } from '../../support/webhooks/http-proxy.ts'
import { startOddReceivers } from '../../support/webhooks/odd-receivers.ts'
import { startReceiver } from '../../support/webhooks/receiver.ts'
import { listen } from '../../support/listen.ts'

const certificate = selfSigned('trusted')
setDefaultCACertificates([...getCACertificates(), certificate.cert])
afterAll(() => setDefaultCACertificates(getCACertificates('bundled')))

const secureReceiver = createServer(certificate, (request, response) => {
  response.writeHead(request.headers.host?.startsWith('localhost:') === true ? 204 : 400).end()
})
const securePort = await listen(secureReceiver)
afterAll(() => { secureReceiver.close() })
const receiver = await startReceiver()
const odd = await startOddReceivers()

const open = {
  allowHttp: true,
  allowLoopback: true,
  timeoutMs: 300_000,
  resolve: async () => ['127.0.0.1', '::1'],
}
const request = { headers: {}, body: '{}' }
const send = async (url: string, proxy: string) =>
  (await createSender({ ...open, proxy })(url, request)).answer
const answered = (status: number) => ({ kind: 'answered', status, retryAfterMs: undefined })
const failed = (reason: string) => ({ kind: 'failed', reason })
const addressOf = ({ port }: { readonly port: number }) => `http://127.0.0.1:${port}`

describe('a webhook attempt through a proxy', () => {
  it('names the checked address to the proxy, and the host to the receiver', async () => {
    const proxy = await startHttpProxy()
    expect(await send(`https://localhost:${securePort}/`, addressOf(proxy)))
      .toEqual(answered(204))
    expect(await send(`http://a.example:${receiver.port}/`, addressOf(proxy)))
      .toEqual(answered(200))
    expect(proxy.requests.map(({ to }) => to))
      .toEqual([`127.0.0.1:${securePort}`, `127.0.0.1:${receiver.port}`])
    expect(receiver.received[0]?.headers.host).toBe(`a.example:${receiver.port}`)
    expect(receiver.received[0]?.headers).not.toHaveProperty('proxy-authorization')
    await eventually(() => expect(proxy.open()).toBe(0))
  })

  it('rejects a certificate of another name, or of an unknown authority', async () => {
    const proxy = addressOf(await startHttpProxy())
    expect(await send(`https://a.example:${securePort}/`, proxy)).toEqual(failed('tls_error'))
    expect(await send(`https://localhost:${odd.ports['is not trusted']}/`, proxy))
      .toEqual(failed('tls_error'))
  })

  it('sends user and password to a proxy with TLS', async () => {
    const proxy = await startHttpProxy({ certificate })
    const url = `https://out:p%40ss%25@localhost:${proxy.port}`
    expect(await send(`https://localhost:${securePort}/`, url)).toEqual(answered(204))
    expect(await send(`http://[::1]:${receiver.port}/`, url))
      .toEqual(failed('proxy_error'))
    const authorization = `Basic ${Buffer.from('out:p@ss%').toString('base64')}`
    expect(proxy.requests).toEqual([
      { to: `127.0.0.1:${securePort}`, authorization },
      { to: `[::1]:${receiver.port}`, authorization },
    ])
  })

  it('is not made to an address that is not allowed', async () => {
    const proxy = await startHttpProxy()
    const sender = (resolve: () => Promise<readonly string[]>) =>
      createSender({ ...open, allowLoopback: false, proxy: addressOf(proxy), resolve })
    const literal = await sender(open.resolve)('http://127.0.0.1/', request)
    const name = await sender(async () => ['8.8.8.8', '10.0.0.1'])('http://a.example/', request)
    const unknown = await sender(async () => [])('http://a.example/', request)
    expect([literal, name, unknown].map(({ answer }) => answer))
      .toEqual(['blocked_address', 'blocked_address', 'dns_error'].map(failed))
    expect(proxy.requests).toEqual([])
  })
})

describe('a proxy of webhook attempts', () => {
  it.each([403, 407, 502] as const)('that answers with status %i fails attempts', async status => {
    const proxy = await startHttpProxy({ behave: () => status })
    expect(await send('https://a.example/', addressOf(proxy)))
      .toEqual(failed('proxy_error'))
    await eventually(() => expect(proxy.open()).toBe(0))
  })

  it('that is not there, closes the connection or has no valid TLS fails attempts', async () => {
    const closing = await startHttpProxy({ behave: () => 'close' })
    const proxies = [
      'http://127.0.0.1:1', addressOf(closing), `https://127.0.0.1:${odd.ports['is not trusted']}`,
      `http://127.0.0.1:${odd.ports['is garbage']}`,
    ]
    const answers = await Promise.all(proxies.map(proxy => send('http://a.example/', proxy)))
    expect(answers).toEqual(proxies.map(() => failed('proxy_error')))
  })

  it('that hangs ends an attempt after its timeout, like a receiver or a name', async () => {
    const hanging = await startHttpProxy({ behave: () => 'hang' })
    const proxy = await startHttpProxy()
    const options = { ...open, timeoutMs: 1_000, proxy: addressOf(proxy) }
    const unresolved = { ...options, resolve: () => new Promise<never>(() => {}) }
    const sent = await Promise.all([
      createSender({ ...options, proxy: addressOf(hanging) })('https://a.example/', request),
      createSender(options)(`https://localhost:${odd.ports.hangs}/`, request),
      createSender(options)(`http://localhost:${odd.ports.hangs}/`, request),
      createSender(unresolved)('https://a.example/', request),
    ])
    expect(sent.map(({ answer }) => answer)).toEqual(sent.map(() => failed('timeout')))
    expect([hanging.requests.length, proxy.requests.length]).toEqual([1, 2])
    await eventually(() => expect(hanging.open() + proxy.open()).toBe(0))
  })

  it('has a URL with http or https, and no path', () => {
    const texts = [
      'http://a:b@proxy.example:3128', 'https://proxy.example', 'http://[::1]:8080/',
      'socks5://proxy.example:1080', 'proxy.example:3128', 'http://proxy.example/path', '',
    ]
    expect(texts.map(isProxyUrl)).toEqual([true, true, true, false, false, false, false])
  })
})
