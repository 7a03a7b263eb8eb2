import { networkInterfaces } from 'node:os'
import { describe, expect, it } from 'vitest'
import { createSender } from '../../services/deliver/sender.ts'
import { webhookUrlError } from '../../services/webhooks/url.ts'
import {
  LITERALS, REBOUND_NAMES, refusedAddresses, ZONES,
} from '../support/data/webhook-addresses.ts'
import { startDnsServer } from '../support/mail/dns-server.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'

/** Listen on this machine by every way there is, and must never be connected to. */
const first = await startReceiver(response => response.end(), '0.0.0.0')
const canaries = [first, await startReceiver(response => response.end(), '::1', first.port)]
const { port } = first
const connections = () => canaries.map(canary => canary.connections())
const silence = [0, 0]

const strict = { allowHttp: false, allowLoopback: false }
const rules = { allowHttp: true, allowLoopback: false, timeoutMs: 300_000 }
const request = { headers: {}, body: '{}' }
const refused = refusedAddresses(port)

/** Without TLS as well: an address must not be safe only because it is not taken for one. */
const bothSchemes = (address: string) => [address, address.replace(/^https:/, 'http:')]

it('the list of addresses has at least 200, and no address of a public name', () => {
  expect(new Set([...refused, ...REBOUND_NAMES]).size).toBeGreaterThanOrEqual(300)
  expect(new Set(refused).size).toBe(refused.length)
  expect(Object.values(LITERALS).flat().length).toBeGreaterThan(150)
})

describe('an address of the list', () => {
  it.each(refused)('%j is refused by its text', address => {
    expect(webhookUrlError(address, strict)).toMatch(/^Its? .*\.$/)
  })

  it.each(REBOUND_NAMES)('with the name %s reveals nothing by its text', name => {
    expect(webhookUrlError(`https://${name}:${port}/`, strict)).toBeUndefined()
  })

  it('is not connected to, whatever its name resolves to', async () => {
    const send = createSender({ ...rules, resolve: async () => ['127.0.0.1', '::1'] })
    const answers = await Promise.all(refused.flatMap(bothSchemes)
      .map(async url => ({ url, answer: (await send(url, request)).answer })))
    expect(answers.filter(({ answer }) => answer.kind !== 'failed')).toEqual([])
    const other = answers.filter(({ answer }) =>
      answer.kind === 'failed' && answer.reason !== 'blocked_address')
    // What is no URL at all leads nowhere, and nothing else does.
    expect(other.filter(({ url }) => URL.canParse(url))).toEqual([])
    expect(connections()).toEqual(silence)
  })
})

describe('a name', () => {
  it('that leads to an internal network is not connected to, for any record type', async () => {
    const dns = await startDnsServer(ZONES)
    const send = createSender({ ...rules, dnsServers: [dns.address] })
    const answers = await Promise.all(REBOUND_NAMES.map(async name =>
      [name, (await send(`http://${name}:${port}/`, request)).answer]))
    expect(answers).toEqual(
      REBOUND_NAMES.map(name => [name, { kind: 'failed', reason: 'blocked_address' }]))
    expect(connections()).toEqual(silence)
    await dns.stop()
  })

  it('is resolved once an attempt, and the socket uses the checked address', async () => {
    let lookups = 0
    // No server has this address; by the second answer it would be the canary.
    const answers = [['3ffe::1'], ['127.0.0.1']]
    const resolve = async () => answers[lookups++] ?? ['127.0.0.1']
    const brief = createSender({ ...rules, timeoutMs: 300, resolve })
    const before = (await brief(`http://rebound.net:${port}/`, request)).answer
    expect([lookups, before.kind]).toEqual([1, 'failed'])
    expect(before).not.toEqual({ kind: 'failed', reason: 'blocked_address' })
    const send = createSender({ ...rules, resolve })
    const after = (await send(`http://rebound.net:${port}/`, request)).answer
    expect([lookups, after]).toEqual([2, { kind: 'failed', reason: 'blocked_address' }])
    expect(connections()).toEqual(silence)
  })

  it('that resolves to an own address of this machine is not connected to', async () => {
    const own = Object.values(networkInterfaces()).flatMap(some => some ?? [])
      .map(({ address }) => address)
    expect(own.length).toBeGreaterThan(0)
    for (const address of own) {
      const send = createSender({ ...rules, resolve: async () => [address] })
      expect((await send(`http://own.rebound.net:${port}/`, request)).answer)
        .toEqual({ kind: 'failed', reason: 'blocked_address' })
    }
    expect(connections()).toEqual(silence)
  })
})

it('the canaries would have received a request', async () => {
  const send = createSender({ ...rules, allowLoopback: true })
  await send(`http://127.0.0.1:${port}/`, request)
  await send(`http://[::1]:${port}/`, request)
  expect(connections()).toEqual([1, 1])
})
