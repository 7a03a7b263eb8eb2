import { expect, it } from 'vitest'
import { createMac } from '../../../services/lib/mac.ts'

const keyOf = (fill: number) => Buffer.alloc(32, fill).toString('base64')
const mac = createMac({ MESSAGE_KEYS: { 1: keyOf(1) }, MESSAGE_KEY_ACTIVE: '1' })
const signed = mac.sign('record', ['a', Buffer.from('b')])

it('what was signed is authentic, however it was divided', () => {
  expect(mac.isAuthentic(signed, 'record', ['ab'])).toBe(true)
})

it.each([
  ['for another purpose', signed, 'message', 'ab'],
  ['with other content', signed, 'record', 'ac'],
  ['without its key id', signed.slice(2), 'record', 'ab'],
  ['by an unknown key', signed.replace('1:', '2:'), 'record', 'ab'],
  ['by the name of a method', signed.replace('1:', 'toString:'), 'record', 'ab'],
  ['cut off', signed.slice(0, -4), 'record', 'ab'],
  ['when there is none', '', 'record', 'ab'],
])('nothing is authentic %s', (_what, given, purpose, content) => {
  expect(mac.isAuthentic(given, purpose, [content])).toBe(false)
})

it('both keys are good while they change, and only the active one signs', () => {
  const both = createMac({ MESSAGE_KEYS: { 1: keyOf(1), 2: keyOf(2) }, MESSAGE_KEY_ACTIVE: '2' })
  expect(both.isAuthentic(signed, 'record', ['ab'])).toBe(true)
  expect(both.sign('record', ['ab'])).toMatch(/^2:/)
})
