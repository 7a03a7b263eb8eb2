import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { loadConfig } from '../../../../services/runtime/platform/config.ts'
import { verifyConfig } from '../../../../services/verify/config.ts'
import {
  createEgress, createEgressPool, describedEgresses,
} from '../../../../services/verify/mailboxes/egress.ts'
import { SmtpChannel } from '../../../../services/verify/mailboxes/session.ts'
import { listen } from '../../../support/listen.ts'
import { startProxy } from '../../../support/mail/proxies.ts'
import { STAGE_ENVIRONMENT } from '../../../support/stacks/stage-environment.ts'

const [HELO, WITHIN] = ['probe.verify.org', { port: 25, timeoutMs: 3_600_000 }]
const named = (name: string) => ({ name, helo: HELO })
const never = new AbortController().signal
const free = () => false
const addresses = Array.from({ length: 1_000 }, (_, index) => `user${index}@mail.org`)

/** A server that greets and closes; `peers` are the addresses that connected to it. */
async function startGreeter () {
  const peers: (string | undefined)[] = []
  const server = createServer((socket: Socket) => {
    peers.push(socket.remoteAddress)
    socket.on('error', () => {})
    socket.end('220 hello\r\n')
  })
  onTestFinished(() => { server.close() })
  return { peers, port: await listen(server) }
}

/** The greeting, as a session reads it. */
async function greetingOf (socket: Promise<Socket>) {
  const channel = new SmtpChannel(await socket, { replyTimeoutMs: 60_000, signal: never })
  onTestFinished(() => channel.close())
  return (await channel.send()).lines
}

async function proxyOf (
  kind: 'socks5' | 'http', portOf: () => number, options?: Parameters<typeof startProxy>[2]
) {
  const proxy = await startProxy(kind, portOf, options)
  onTestFinished(proxy.stop)
  return proxy
}

describe('a pool of egresses', () => {
  it('asks each address from the same one, and moves only those of one that rests', () => {
    const pool = createEgressPool(['a', 'b', 'c'].map(name => createEgress(named(name), WITHIN)))
    const chosen = (resting = '') => addresses.map(address =>
      pool.choose('google', address, name => name === resting)?.name)
    const before = chosen()
    expect(chosen()).toEqual(before)
    for (const name of ['a', 'b', 'c']) {
      expect(before.filter(it => it === name).length).toBeGreaterThan(250)
    }
    const during = chosen('b')
    expect(during.filter((it, index) => before[index] !== 'b' && it !== before[index])).toEqual([])
    expect(during).not.toContain('b')
    expect(pool.choose('google', 'a@mail.org', () => true)).toBeUndefined()
  })

  it('asks an owner that egresses name only from those', () => {
    const pool = createEgressPool([
      createEgress({ ...named('all') }, WITHIN),
      createEgress({ ...named('own'), owners: ['google', 'yahoo'] }, WITHIN),
    ])
    const chosen = (owner: string, isResting = free) =>
      new Set(addresses.map(address => pool.choose(owner, address, isResting)?.name))
    expect(chosen('google')).toEqual(new Set(['own']))
    expect(chosen('mail.org')).toEqual(new Set(['all']))
    expect(pool.choose('google', 'a@gmail.com', name => name === 'own')).toBeUndefined()
  })

  it('spares one whose own proxy does not answer, unless there is no other', async () => {
    const proxy = await proxyOf('socks5', () => 0)
    await proxy.stop()
    const broken = createEgress({ ...named('broken'), proxy: `socks5://${proxy.address}` }, WITHIN)
    const other = createEgress(named('other'), WITHIN)
    const pool = createEgressPool([broken, other])
    const chosen = () => new Set(addresses.map(it => pool.choose('google', it, free)?.name))
    expect(chosen()).toEqual(new Set(['broken', 'other']))
    await expect(broken.connect('127.0.0.1', never)).rejects.toThrow('no_egress')
    expect(chosen()).toEqual(new Set(['other']))
    expect(createEgressPool([broken]).choose('google', 'a@mail.org', free)).toBe(broken)
  })
})

describe('an egress', () => {
  it('connects from its own address', async () => {
    const { peers, port } = await startGreeter()
    const egress = createEgress({ ...named('a'), address: '127.0.0.9' }, { ...WITHIN, port })
    expect(await greetingOf(egress.connect('127.0.0.1', never))).toEqual(['hello'])
    expect(peers).toEqual(['127.0.0.9'])
    await expect(egress.connect('::1', never)).rejects.toThrow('unreachable')
    const foreign = createEgress({ ...named('a'), address: '192.0.2.1' }, { ...WITHIN, port })
    await expect(foreign.connect('127.0.0.1', never)).rejects.toThrow('no_egress')
  })

  it.each(['socks5', 'http'] as const)(
    'logs in to its %s proxy, and loses nothing of the greeting', async kind => {
      const { port } = await startGreeter()
      const proxy = await proxyOf(kind, () => port, { login: 'us er:p@ss:word' })
      const through = (login: string) => createEgress(
        { ...named('a'), proxy: `${kind}://${login}${proxy.address}` }, { ...WITHIN, port: 2525 })
      const connecting = through('us%20er:p%40ss%3Aword@').connect('192.0.2.1', never)
      expect(await greetingOf(connecting)).toEqual(['hello'])
      expect(proxy.requests).toEqual(['us er:p@ss:word 192.0.2.1:2525'])
      await expect(through('us%20er:wrong@').connect('192.0.2.1', never)).rejects.toThrow(
        'no_egress')
      await expect(through('').connect('192.0.2.1', never)).rejects.toThrow('no_egress')
    })

  it.each([
    ['socks5', 1, 'unreachable'], ['socks5', 2, 'no_egress'], ['socks5', 3, 'unreachable'],
    ['socks5', 4, 'unreachable'], ['socks5', 5, 'unreachable'], ['socks5', 6, 'unreachable'],
    ['socks5', 7, 'no_egress'], ['socks5', 8, 'unreachable'],
    ['http', 502, 'unreachable'], ['http', 504, 'unreachable'], ['http', 403, 'no_egress'],
    ['http', 301, 'no_egress'],
  ] as const)('whose %s proxy refuses with %i reports %s', async (kind, refusal, fault) => {
    const proxy = await proxyOf(kind, () => 0, { refusal })
    const egress = createEgress(
      { ...named('a'), proxy: `${kind}://${proxy.address}` }, WITHIN)
    await expect(egress.connect('192.0.2.1', never)).rejects.toThrow(`failed: ${fault}`)
    expect(proxy.requests).toEqual(['192.0.2.1:25'])
    expect(egress.isDown()).toBe(fault === 'no_egress')
  })

  it.each(['socks5', 'http'] as const)(
    'gives up a %s proxy that does not answer once it is aborted', async kind => {
      const silent = createServer()
      const port = await listen(silent)
      const egress = createEgress({ ...named('a'), proxy: `${kind}://127.0.0.1:${port}` }, WITHIN)
      const abort = new AbortController()
      const connecting = egress.connect('192.0.2.1', abort.signal)
      const [socket] = await once(silent, 'connection') as [Socket]
      onTestFinished(() => { silent.close() })
      await once(socket, 'data')
      const closed = once(socket, 'close')
      abort.abort()
      await expect(connecting).rejects.toThrow('timeout')
      await closed
      expect(egress.isDown()).toBe(false)
    })
})

describe('SMTP_EGRESS', () => {
  const load = (all: unknown, more: Readonly<Record<string, string>> = {}) =>
    loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT, SMTP_EGRESS: JSON.stringify(all), ...more })

  it('describes egresses, and replaces the settings of a single one', () => {
    const all = [
      { name: 'one', helo: HELO, address: '192.0.2.1', sender: 'a@verify.org' },
      { name: 'two', helo: HELO, proxy: 'http://u:p@proxy.org:80', publicAddress: '192.0.2.2' },
      { name: 'three', helo: HELO, proxy: 'socks5://[2001:db8::1]:1080', owners: ['google'] },
    ]
    expect(describedEgresses(load(all))).toEqual(all)
    const SINGLE = { SMTP_HELO: HELO, SMTP_PROXY: 'proxy.org:1080' }
    expect(describedEgresses(load([], SINGLE)))
      .toEqual([{ name: 'default', helo: HELO, proxy: 'proxy.org:1080' }])
    expect(describedEgresses(load([]))).toEqual([])
    expect(() => describedEgresses(load(all, SINGLE)))
      .toThrow('SMTP_EGRESS replaces SMTP_HELO, SMTP_PROXY')
  })

  it.each([
    [{ name: 'A b' }, 'at "0/name" must match pattern'],
    [{ helo: 'probe' }, 'at "0/helo" must be a full host name'],
    [{ sender: 'a@b> X' }, 'at "0/sender" must be a bare e-mail address'],
    [{ address: 'eth0' }, 'at "0/address" must be an IP address'],
    [{ proxy: 'socks5://u:secret77@proxy.org' }, 'at "0/proxy" must be socks5://user'],
    [{ proxy: 'https://u:secret77@proxy.org:443' }, 'at "0/proxy" must be socks5://user'],
    [{ proxy: 'socks5://u:%E0%A4%A@proxy.org:1080' }, 'at "0/proxy" must be socks5://user'],
    [{ proxy: 'socks5://p.org:1', address: '192.0.2.1' }, 'at "0" must have an address of this'],
    [{ pasword: 'secret77' }, 'must not have additional properties'],
  ])('refuses %j, without the secret', (wrong, fault) => {
    let message = ''
    try {
      load([{ name: 'one', helo: HELO, ...wrong }])
    } catch (error) {
      message = (error as Error).message
    }
    expect(message).toContain(fault)
    expect(message).not.toContain('secret77')
  })

  it('refuses the same name twice, and a pool that leaves owners out', () => {
    const one = { name: 'one', helo: HELO }
    expect(() => load([one, one])).toThrow('SMTP_EGRESS must have different names')
    expect(() => load([{ ...one, owners: ['google'] }])).toThrow('must have one without "owners"')
  })
})
