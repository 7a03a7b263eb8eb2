import { describe, expect, it } from 'vitest'
import { createSender } from '../../../services/webhooks/sender.ts'
import { startReceiver } from '../../support/webhooks/receiver.ts'

/** Listens on all interfaces, so that it receives every request to this machine. */
const canary = await startReceiver(response => response.end(), '0.0.0.0')
const { port } = canary

/** Hosts that are this machine or a private network. */
const hosts = [
  '127.0.0.1', '127.1', '127.0.1', '127.000.000.001', '0x7f.0.0.1', '0x7f.1', '0x7f000001',
  '0177.0.0.1', '0177.1', '017700000001', '2130706433', '0', '0.0.0.0', '0x0', '127.0.0.1.',
  '①②⑦.0.0.1', '１２７.０.０.１', '127。0。0。1', '%31%32%37.0.0.1', '127.255.255.254',
  '[::1]', '[0:0:0:0:0:0:0:1]', '[::]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::127.0.0.1]',
  '[64:ff9b::127.0.0.1]', '[64:ff9b:1::1]', '[2002:7f00:1::]', '[2001:0:7f00:1::]', '[100::1]',
  '[fe80::1]', '[fec0::1]', '[fc00::1]', '[fd00:ec2::254]', '[ff02::1]', '[2001:db8::1]',
  '[3fff::1]', '[5f00::1]', '[::ffff:0:127.0.0.1]', '[::ffff:10.0.0.1]',
  '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '169.254.169.254', '0xa9fea9fe',
  '2852039166', '100.64.0.1', '100.100.100.200', '192.0.0.1', '192.0.2.1', '192.88.99.1',
  '198.18.0.1', '198.51.100.1', '203.0.113.1', '224.0.0.1', '240.0.0.1', '255.255.255.255',
  'localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'b.a.localhost.',
]

/** Addresses that DNS may return for an inconspicuous name. */
const rebound: readonly (readonly string[])[] = [
  ['127.0.0.1'], ['::1'], ['0.0.0.0'], ['::'], ['10.0.0.1'], ['169.254.169.254'],
  ['8.8.8.8', '127.0.0.1'], ['127.0.0.1', '8.8.8.8'], ['2606:4700:4700::1111', '::1'],
  ['::ffff:127.0.0.1'], ['::ffff:7f00:1'], ['fd00::1'], ['fe80::1%lo'], ['64:ff9b::7f00:1'],
  ['2130706433'], ['127.1'], ['not an address'], ['100.64.0.1'],
]

const rules = { allowHttp: true, allowLoopback: false, timeoutMs: 300_000 }
const request = { headers: {}, body: '{}' }

describe('a receiver in a private network', () => {
  it.each(hosts)('is not reached as http://%s', async host => {
    const send = createSender(rules)
    for (const url of [`http://${host}:${port}/`, `http://a.example@${host}:${port}/`]) {
      expect((await send(url, request)).answer)
        .toEqual({ kind: 'failed', reason: 'blocked_address' })
    }
    expect(canary.connections()).toBe(0)
  })

  it.each(rebound)('is not reached by a name that resolves to %s', async (...addresses) => {
    const send = createSender({ ...rules, resolve: async () => addresses })
    const { answer } = await send(`http://rebound.example:${port}/`, request)
    expect(answer).toEqual({ kind: 'failed', reason: 'blocked_address' })
    expect(canary.connections()).toBe(0)
  })

  it('is not requested from a proxy', async () => {
    const proxy = `http://127.0.0.1:${port}`
    const send = createSender({ ...rules, proxy })
    const literals = hosts.map(host => send(`http://${host}:${port}/`, request))
    const names = rebound.map(async addresses => {
      const sender = createSender({ ...rules, proxy, resolve: async () => addresses })
      return await sender('http://a.example/', request)
    })
    const answers = (await Promise.all([...literals, ...names])).map(({ answer }) => answer)
    expect(answers).toEqual(answers.map(() => ({ kind: 'failed', reason: 'blocked_address' })))
    expect(canary.connections()).toBe(0)
  })

  it.each([
    'file:///etc/passwd', 'gopher://127.0.0.1/', 'ftp://127.0.0.1/', 'javascript:0', 'data:,a',
    '//127.0.0.1/', '127.0.0.1', 'http://', 'http:///', 'http://[::1', 'http://a b/',
  ])('is not reached by %s', async url => {
    const { answer } = await createSender(rules)(url, request)
    expect(answer).toMatchObject({ kind: 'failed' })
    expect(canary.connections()).toBe(0)
  })

  it('is reached if loopback addresses are allowed', async () => {
    const send = createSender({ ...rules, allowLoopback: true })
    const { answer } = await send(`http://127.1:${port}/`, request)
    expect(answer).toMatchObject({ kind: 'answered', status: 200 })
    expect(canary.connections()).toBe(1)
    expect(hosts.length + rebound.length).toBeGreaterThanOrEqual(60)
  })
})
