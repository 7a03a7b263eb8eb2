import { describe, expect, it } from 'vitest'
import { checksOf, limitationsOf } from '../../../services/jobs/checks.ts'

const checksBy = (PROVIDERS: object, SECOND_OPINIONS: object = {}) =>
  checksOf({ PROVIDERS, SECOND_OPINIONS })

describe('the checks of a service with a preset', () => {
  it('are those that the preset makes', () => {
    const checks = checksBy({
      'email-validation': ['http:bouncer-batch'],
      whatsapp: ['http:checknumber'],
      'carrier-lookup': ['http:twilio'],
      telegram: ['http:1'],
    })
    expect(Object.fromEntries(checks)).toEqual({
      'email-validation': ['syntax', 'lists', 'domain', 'mailbox'],
      whatsapp: ['syntax', 'vendor'],
      'carrier-lookup': ['syntax', 'numbering_plan', 'vendor'],
      telegram: ['syntax', 'vendor'],
    })
    for (const [service, made] of checks) expect(limitationsOf(service, made)).toEqual([])
  })

  it('include those of a second opinion', () => {
    const checks = checksBy({ 'email-validation': ['email-domain'] },
      { 'email-validation': ['http:zerobounce'] })
    expect(checks.get('email-validation')).toContain('mailbox')
  })
})
