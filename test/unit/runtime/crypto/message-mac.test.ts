import { describe, expect, it } from 'vitest'
import type { OutgoingMessage, RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import { createMessageMac } from '../../../../services/runtime/crypto/mac.ts'

const keyOf = (fill: number) => Buffer.alloc(32, fill).toString('base64')
const mac = createMessageMac({ MESSAGE_KEYS: { 1: keyOf(1) }, MESSAGE_KEY_ACTIVE: '1' })
const sent: OutgoingMessage = {
  topic: 'wallet.journal', key: 'org_a.live', value: Buffer.from('top-up'), headers: { job: '' },
}
const received = ({ key, ...message }: OutgoingMessage): RawMessage =>
  ({ ...message, key: Buffer.from(key), partition: 0, offset: 7n, timestampMs: 0 })
const signed = received(mac.sign(sent))

describe('a message of a service', () => {
  it('is authentic, with and without a value', () => {
    expect(mac.isAuthentic(signed)).toBe(true)
    expect(mac.isAuthentic(received(mac.sign({ ...sent, value: null })))).toBe(true)
  })

  it('is authentic in any order of its headers', () => {
    const { headers } = received(mac.sign({ ...sent, headers: { a: '1', b: '2' } }))
    const turned = Object.fromEntries(Object.entries(headers).toReversed())
    expect(mac.isAuthentic({ ...signed, headers: turned })).toBe(true)
  })

  it('is signed again when it is sent on', () => {
    const { topic: _, ...rest } = mac.sign(sent)
    expect(mac.isAuthentic(received(mac.sign({ ...rest, topic: 'ledger.dead' })))).toBe(true)
  })
})

describe('a message is forged', () => {
  it.each<readonly [string, Partial<RawMessage>]>([
    ['without a MAC', { headers: { job: '' } }],
    ['with another topic', { topic: 'jobs.settled' }],
    ['with another key', { key: Buffer.from('org_b.live') }],
    ['with another value', { value: Buffer.from('top-uq') }],
    ['with a value cut off', { value: Buffer.from('top-u') }],
    ['without its value', { value: null }],
    ['with an empty value', { value: Buffer.alloc(0) }],
    ['with another header', { headers: { ...signed.headers, job: 'job_1' } }],
    ['with one header more', { headers: { ...signed.headers, tenant: 'org_b.live' } }],
    ['with one header less', { headers: { mac: signed.headers['mac'] ?? '' } }],
  ])('%s', (_name, change) => {
    expect(mac.isAuthentic({ ...signed, ...change })).toBe(false)
  })

  it('when content moves from the value to the key', () => {
    const message = received({ ...sent, key: 'org_a.livetop-', value: Buffer.from('up') })
    expect(mac.isAuthentic({ ...message, headers: signed.headers })).toBe(false)
  })
})

it('the message MAC does not sign messages to and from partners', () => {
  const message = { ...sent, topic: 'feeds.acme.finished' }
  expect(mac.sign(message)).toBe(message)
  expect(mac.isAuthentic(received({ ...message, topic: 'feeds.acme.submitted' }))).toBe(true)
})

it('the message MAC needs the signing key', () => {
  const settings = { MESSAGE_KEYS: { 1: keyOf(1) }, MESSAGE_KEY_ACTIVE: '2' }
  expect(() => createMessageMac(settings)).toThrow(
    'MESSAGE_KEYS has no key "2", which MESSAGE_KEY_ACTIVE names')
})

describe('a message of a partner', () => {
  const contact = { ...sent, topic: 'feeds.acme.submitted', headers: { trace: 'x' } }

  it('is no replay, whatever headers it has', () => {
    expect(mac.sign(contact)).toBe(contact)
    const stolen = { replay_of: '0:6', mac: signed.headers['mac'] ?? '' }
    const all: readonly Record<string, string>[] = [{}, { replay_of: '0:6' }, stolen]
    for (const headers of all) {
      const message = received({ ...contact, headers })
      expect([mac.isAuthentic(message), mac.isReplay(message)]).toEqual([true, false])
    }
  })

  it('is a replay if a service has signed it, with nothing changed', () => {
    const replay = received(mac.sign({ ...contact, headers: { replay_of: '0:6' } }))
    expect(mac.isReplay(replay)).toBe(true)
    expect(mac.isReplay({ ...replay, value: Buffer.from('another') })).toBe(false)
    expect(mac.isReplay({ ...replay, topic: 'feeds.other.submitted' })).toBe(false)
    expect(mac.isReplay({ ...replay, headers: { ...replay.headers, replay_of: '0:7' } }))
      .toBe(false)
  })
})
