import { describe, expect, it } from 'vitest'
import { suggestDomain } from '../../../../services/verify/providers/domain-typos.ts'
import {
  COMMON_PROVIDERS, FURTHER_PROVIDERS, LOOKALIKE_DOMAINS, RELAY_DOMAINS,
} from '../../../../services/verify/providers/built-in-lists.ts'

describe('the suggestion for a mail domain', () => {
  it.each([
    ['gmial.com', 'gmail.com'], ['gmailc.om', 'gmail.com'], ['gmail.co', 'gmail.com'],
    ['otmail.com', 'hotmail.com'], ['outiook.com', 'outlook.com'], ['yahooo.cmo', 'yahoo.com'],
    ['company.cmo', 'company.com'], ['company.ogr', 'company.org'],
  ])('%s: %s', (domain, expected) => {
    expect(suggestDomain(domain)).toBe(expected)
  })

  it.each([
    'cloud.com', 'email.com', 'glami.com', 'ietf.org', 'hotmail.rs', 'hotmail.lt', 'yahoo.ee',
    'yahoo.com.hr', 'gmx.fr', 'company.de', 'mail.company.cmo', 'company.xyz',
    'line.com', 'act.net',
  ])('is missing for the real domain %s', domain => {
    expect(suggestDomain(domain)).toBeUndefined()
  })

  it('is missing for every provider, relay and lookalike', () => {
    const real =
      [...COMMON_PROVIDERS, ...FURTHER_PROVIDERS, ...RELAY_DOMAINS, ...LOOKALIKE_DOMAINS]
    expect(real.filter(domain => suggestDomain(domain) !== undefined)).toEqual([])
  })
})
