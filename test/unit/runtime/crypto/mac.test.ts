import { describe, expect, it } from 'vitest'
import type { OutgoingMessage, RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import {
  createMessageMac, createRecordMac, type SignedRecord,
} from '../../../../services/runtime/crypto/mac.ts'
import { messageKeysOf } from '../../../support/keys/signed.ts'

/** Message keys with these ids, of which the last one signs. */
const keysOf = (...ids: readonly number[]) => ({
  MESSAGE_KEYS: Object.fromEntries(ids.map(id =>
    [String(id), Buffer.alloc(32, id).toString('base64')])),
  MESSAGE_KEY_ACTIVE: String(ids.at(-1)),
})
const mac = createMessageMac(keysOf(1))
const sent: OutgoingMessage = {
  topic: 'wallet.journal', key: 'org_a.live', value: Buffer.from('top-up'), headers: { job: '' },
}
const received = ({ key, ...message }: OutgoingMessage): RawMessage =>
  ({ ...message, key: Buffer.from(key), partition: 0, offset: 7n, timestampMs: 0 })
const signed = received(mac.sign(sent))
const signature = signed.headers['mac'] ?? ''

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

  it('is signed by the active key, and is authentic by each during a rotation', () => {
    const rotating = createMessageMac(keysOf(1, 2))
    expect(rotating.isAuthentic(signed)).toBe(true)
    expect(rotating.sign(sent).headers['mac']).toMatch(/^2:/)
    expect(() => createMessageMac({ ...keysOf(1), MESSAGE_KEY_ACTIVE: '2' })).toThrow(
      'MESSAGE_KEYS has no key "2", which MESSAGE_KEY_ACTIVE names')
  })

  it('is authentic whatever the id of the key is', () => {
    const id = '2026-11-30T10:00Z'
    const dated = createMessageMac({
      MESSAGE_KEYS: { ...keysOf(1).MESSAGE_KEYS, [id]: Buffer.alloc(32, 2).toString('base64') },
      MESSAGE_KEY_ACTIVE: id,
    })
    expect(dated.isAuthentic(received(dated.sign(sent)))).toBe(true)
  })
})

describe('a message is forged', () => {
  const withMac = (text: string) => ({ headers: { ...signed.headers, mac: text } })

  it.each<readonly [string, Partial<RawMessage>]>([
    ['without a MAC', { headers: { job: '' } }],
    ['with an empty MAC', withMac('')],
    ['without the id of the key', withMac(signature.slice(2))],
    ['by an unknown key', withMac(signature.replace('1:', '2:'))],
    ['by the name of a method', withMac(signature.replace('1:', 'toString:'))],
    ['with a MAC cut off', withMac(signature.slice(0, -4))],
    ['with another topic', { topic: 'jobs.settled' }],
    ['with another key', { key: Buffer.from('org_b.live') }],
    ['with another value', { value: Buffer.from('top-uq') }],
    ['with a value cut off', { value: Buffer.from('top-u') }],
    ['without its value', { value: null }],
    ['with an empty value', { value: Buffer.alloc(0) }],
    ['with another header', { headers: { ...signed.headers, job: 'job_1' } }],
    ['with one header more', { headers: { ...signed.headers, tenant: 'org_b.live' } }],
    ['with one header less', { headers: { mac: signature } }],
    ['when content moves from the value to the key',
      { key: Buffer.from('org_a.livetop-'), value: Buffer.from('up') }],
  ])('%s', (_name, change) => {
    expect(mac.isAuthentic({ ...signed, ...change })).toBe(false)
  })

  it('if it was a tombstone and has an empty value', () => {
    const tombstone = received(mac.sign({ ...sent, value: null }))
    expect(mac.isAuthentic({ ...tombstone, value: Buffer.alloc(0) })).toBe(false)
  })
})

describe('a message of a partner', () => {
  const contact = { ...sent, topic: 'feeds.acme.submitted', headers: { trace: 'x' } }

  it('is not signed, and no replay, whatever headers it has', () => {
    for (const message of [contact, { ...contact, topic: 'feeds.acme.finished' }]) {
      expect(mac.sign(message)).toBe(message)
    }
    const stolen = { replay_of: '0:6', mac: signature }
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

it('a record MAC is authentic for its record only, and any other is reported', () => {
  const record: SignedRecord = { table: 'journal', tenant: 'org_1.live', id: '7', content: 'abc' }
  const forged: SignedRecord[] = []
  const mac = createRecordMac(messageKeysOf(), one => forged.push(one))
  const given = mac.sign(record)
  expect(mac.isAuthentic(given, record)).toBe(true)
  const others: readonly SignedRecord[] = [
    { ...record, table: 'deliveries' }, { ...record, tenant: 'org_2.live' },
    { ...record, id: '8' }, { ...record, content: 'abd' },
    { ...record, id: '7","abc', content: '' },
  ]
  expect(others.map(other => mac.isAuthentic(given, other))).toEqual(others.map(() => false))
  expect(mac.isAuthentic('', record)).toBe(false)
  expect(forged).toEqual([...others, record])
})
