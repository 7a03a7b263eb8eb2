import { describe, expect, it } from 'vitest'
import { isServerAddress } from '../../../../services/runtime/platform/networks.ts'

describe('the address of a resolver', () => {
  it.each(['9.9.9.9', '127.0.0.1:5353', '2620:fe::fe', '[2620:fe::fe]:53', '[::1]'])(
    'may be %s', (text) => { expect(isServerAddress(text)).toBe(true) })

  it.each([
    '', 'dns.example', '9.9.9', '9.9.9.9:', '9.9.9.9:0', '9.9.9.9:65536', '[9.9.9.9]:53', ':53',
  ])('is not "%s"', (text) => { expect(isServerAddress(text)).toBe(false) })
})
