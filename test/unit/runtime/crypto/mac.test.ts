import { expect, it } from 'vitest'
import {
  createMac, createRecordMac, type SignedRecord,
} from '../../../../services/runtime/crypto/mac.ts'
import { messageKeysOf } from '../../../support/keys/signed.ts'

const keyOf = (fill: number) => Buffer.alloc(32, fill).toString('base64')
const mac = createMac({ MESSAGE_KEYS: { 1: keyOf(1) }, MESSAGE_KEY_ACTIVE: '1' })
const signed = mac.sign('record', ['a', Buffer.from('b')])

it('a MAC does not depend on how the content is split', () => {
  expect(mac.isAuthentic(signed, 'record', ['ab'])).toBe(true)
})

it.each([
  ['for another purpose', { purpose: 'message' }],
  ['with other content', { content: 'ac' }],
  ['without its key id', { given: signed.slice(2) }],
  ['by an unknown key', { given: signed.replace('1:', '2:') }],
  ['by the name of a method', { given: signed.replace('1:', 'toString:') }],
  ['cut off', { given: signed.slice(0, -4) }],
  ['when there is none', { given: '' }],
])('a MAC is not authentic %s', (_what, changed) => {
  const { given, purpose, content } = {
    given: signed, purpose: 'record', content: 'ab', ...changed,
  }
  expect(mac.isAuthentic(given, purpose, [content])).toBe(false)
})

it('a MAC of each key is authentic during a rotation, and the active one signs', () => {
  const both = createMac({ MESSAGE_KEYS: { 1: keyOf(1), 2: keyOf(2) }, MESSAGE_KEY_ACTIVE: '2' })
  expect(both.isAuthentic(signed, 'record', ['ab'])).toBe(true)
  expect(both.sign('record', ['ab'])).toMatch(/^2:/)
})

const record: SignedRecord = { table: 'journal', tenant: 'org_1.live', id: '7', content: 'abc' }

it('a record MAC is authentic for its record only, and any other is reported', () => {
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
