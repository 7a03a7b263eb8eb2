import { expect, it } from 'vitest'
import { fingerprintKeyOf } from '../../../services/ingest/request.ts'

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')

it('the key of fingerprints stays the same when message keys are added', () => {
  const old = fingerprintKeyOf({ 1: keyOf(1) })
  expect(fingerprintKeyOf({ 2: keyOf(2), 1: keyOf(1) }).equals(old)).toBe(true)
  expect(fingerprintKeyOf({ 2: keyOf(2) }).equals(old)).toBe(false)
  expect(() => fingerprintKeyOf({})).toThrow('MESSAGE_KEYS has no key')
})
