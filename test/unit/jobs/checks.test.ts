import { describe, expect, it } from 'vitest'
import type { CheckName } from '../../../schemas/api/services.ts'
import { checksConfig, listChecks, listLimitations } from '../../../services/jobs/checks.ts'
import { defineConfig, loadConfig } from '../../../services/runtime/platform/config.ts'
import type { ServiceSlug } from '../../../services/topology.ts'

const read = (env: Readonly<Record<string, string>> = {}) =>
  listChecks(loadConfig(defineConfig(checksConfig), env))
const emailChecks = (providers: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  read({ PROVIDERS: JSON.stringify({ 'email-validation': providers }), ...env })
    .get('email-validation')

describe('the checks of the services', () => {
  it('are those of the numbering plans, lists and the DNS by default', () => {
    expect(Object.fromEntries(read())).toEqual({
      'phone-validation': ['syntax', 'numbering_plan', 'carrier_range'],
      'carrier-single': ['syntax', 'numbering_plan', 'carrier_range'],
      'carrier-lookup': ['syntax', 'numbering_plan', 'carrier_range'],
      'email-validation': ['syntax', 'lists', 'domain'],
    })
  })

  it('have no domain if DNS_SERVERS is empty', () => {
    expect(read({ DNS_SERVERS: '' }).get('email-validation')).toEqual(['syntax', 'lists'])
    expect(read({ DNS_SERVERS: '9.9.9.9' }).get('email-validation'))
      .toEqual(['syntax', 'lists', 'domain'])
  })

  it('are those of all providers of a service', () => {
    expect(emailChecks(['smtp-probe']))
      .toEqual(['syntax', 'lists', 'domain', 'mailbox', 'catch_all'])
    expect(emailChecks(['sandbox'])).toEqual(['syntax'])
    const SECOND_OPINIONS = JSON.stringify({ 'email-validation': ['http:7'] })
    expect(emailChecks(['email-domain'], { SECOND_OPINIONS }))
      .toEqual(['syntax', 'lists', 'domain', 'vendor'])
    expect(emailChecks([], { SECOND_OPINIONS })).toBeUndefined()
  })
})

describe('the limitations of a service', () => {
  const cases: readonly (readonly [ServiceSlug, readonly CheckName[], readonly string[]])[] = [
    ['email-validation', ['syntax', 'lists'], ['domain_not_checked', 'mailbox_not_checked']],
    ['email-validation', ['syntax', 'lists', 'domain'], ['mailbox_not_checked']],
    ['email-validation', ['syntax', 'domain'], ['mailbox_not_checked']],
    ['email-validation', ['syntax'], ['domain_not_checked', 'mailbox_not_checked']],
    ['email-validation', ['syntax', 'mailbox'], []],
    ['email-validation', [], []],
    ['email-validation', ['syntax', 'lists', 'domain', 'mailbox'], []],
    ['email-validation', ['syntax', 'lists', 'vendor'], []],
    ['phone-validation', ['syntax', 'numbering_plan', 'carrier_range'], ['range_only']],
    ['phone-validation', ['syntax', 'vendor'], []],
    ['carrier-single', ['syntax', 'numbering_plan', 'carrier_range'], ['carrier_of_range']],
    ['carrier-lookup', ['syntax', 'carrier_range', 'vendor'], []],
    ['whatsapp', ['syntax', 'vendor'], []],
    ['whatsapp', [], []],
  ]
  it.each(cases)('%s with the checks %j: %j', (service, checks, expected) => {
    expect(listLimitations(service, checks)).toEqual(expected)
  })
})

const readProviders = (lists?: unknown) => loadConfig(defineConfig(checksConfig), {
  ...lists !== undefined && { PROVIDERS: JSON.stringify(lists) },
}).PROVIDERS

describe('PROVIDERS', () => {
  it('names built-in and described providers of services', () => {
    const lists = { whatsapp: ['http:1', 'http:20'], 'email-validation': ['email-domain'] }
    expect(readProviders(lists)).toEqual(lists)
  })

  it.each(['http', 'http:', 'http:0', 'http:01', 'http:1234567', 'https:1', 'acme', ''])(
    'names no provider "%s"', (name) => {
      expect(() => readProviders({ whatsapp: [name] })).toThrow(
        'PROVIDERS at "whatsapp/0" must be one of numbering-plan, ')
    })
})
