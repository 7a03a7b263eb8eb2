import { describe, expect, it } from 'vitest'
import { defineConfig, loadConfig } from '../../../services/runtime/platform/config.ts'
import { providersConfig } from '../../../services/jobs/checks.ts'

const read = (PROVIDERS?: unknown) => loadConfig(defineConfig(providersConfig), {
  ...(PROVIDERS === undefined ? {} : { PROVIDERS: JSON.stringify(PROVIDERS) }),
}).PROVIDERS

describe('PROVIDERS', () => {
  it('names built-in and described providers of services', () => {
    const lists = { whatsapp: ['http:1', 'http:20'], 'email-validation': ['email-domain'] }
    expect(read(lists)).toEqual(lists)
  })

  it('names the providers of four services by default', () => {
    expect(read()).toEqual({
      'phone-validation': ['numbering-plan'],
      'carrier-single': ['numbering-plan'],
      'carrier-lookup': ['numbering-plan'],
      'email-validation': ['email-domain'],
    })
  })

  it.each(['http', 'http:', 'http:0', 'http:01', 'http:1234567', 'https:1', 'acme', ''])(
    'names no provider "%s"', (name) => {
      expect(() => read({ whatsapp: [name] })).toThrow(
        'PROVIDERS at "whatsapp/0" must be one of numbering-plan, email-domain, smtp-probe, ' +
        'sandbox, http:<id>')
    })
})
