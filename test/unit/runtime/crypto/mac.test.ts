import { expect, it } from 'vitest'
import { createMac } from '../../../../services/runtime/crypto/mac.ts'

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
