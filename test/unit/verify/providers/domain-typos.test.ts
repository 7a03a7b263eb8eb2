import { describe, expect, it } from 'vitest'
import { suggestDomain } from '../../../../services/verify/providers/domain-typos.ts'
import {
  COMMON_PROVIDERS, FURTHER_PROVIDERS, LOOKALIKE_DOMAINS, RELAY_DOMAINS,
} from '../../../../services/verify/providers/built-in-lists.ts'

describe('the suggestion for a mail domain', () => {
  it.each([
    ['gmial.com', 'gmail.com'], ['gmail.con', 'gmail.com'], ['gmail.co', 'gmail.com'],
    ['gmailc.om', 'gmail.com'], ['gnail.con', 'gmail.com'], ['gmaill.com', 'gmail.com'],
    ['hotmial.com', 'hotmail.com'], ['hotmail.co', 'hotmail.com'], ['homail.con', 'hotmail.com'],
    ['otmail.com', 'hotmail.com'], ['outlok.com', 'outlook.com'], ['outiook.com', 'outlook.com'],
    ['yaho.com', 'yahoo.com'], ['yahooo.com', 'yahoo.com'], ['yahooo.cmo', 'yahoo.com'],
    ['yahoo.co', 'yahoo.com'], ['comcast.nry', 'comcast.net'],
    ['btinternett.com', 'btinternet.com'],
    ['company.cmo', 'company.com'], ['con-artists.con', 'con-artists.com'],
    ['company.ogr', 'company.org'],
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

  it('leads to no further suggestion', () => {
    for (const provider of COMMON_PROVIDERS) {
      const suggestion = suggestDomain(`${provider.slice(0, 3)}${provider.slice(2)}`)
      if (suggestion !== undefined) expect(suggestDomain(suggestion)).toBeUndefined()
    }
  })
})
