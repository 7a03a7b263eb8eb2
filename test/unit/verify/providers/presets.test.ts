import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { VENDOR_PRESETS } from '../../../../services/jobs/checks.ts'
import { createChecker } from '../../../../services/verify/checker.ts'
import { readHttpProviders } from '../../../../services/verify/providers/http-vendor.ts'
import { createVendorProvider } from '../../../../services/verify/providers/http.ts'
import type { ServiceSlug } from '../../../../services/topology.ts'
import { FAKE_KEYS, type FakeMode } from '../../../support/vendors/fake-vendor.ts'
import {
  presetAt, startFakeVendors, type FakeVendors,
} from '../../../support/vendors/fake-vendors.ts'

let vendors: FakeVendors
beforeAll(async () => { vendors = await startFakeVendors() })
afterAll(() => vendors.stop())
beforeEach(() => {
  vendors.behave('well')
  vendors.purchases.length = 0
})

const signal = new AbortController().signal

async function check (
  name: string, service: ServiceSlug, canonical: string, options?: readonly string[]
) {
  const { providers: [vendor], faults } = readHttpProviders([presetAt(vendors.url, name)], true)
  expect(faults).toEqual([])
  const counted: string[] = []
  const ask = createChecker({
    lists: { [service]: ['http:1'] },
    limits: {
      timeoutMs: 300_000,
      concurrency: 1,
      retries: 0,
      breaker: { failingShare: 0.9, sampledMs: 30_000, openMs: 60_000 },
    },
    factories: { 'http:1': () => createVendorProvider(vendor!) },
    metrics: {
      // The last label is the outcome.
      count: (_, labels, more = 1) => {
        if (more > 0) counted.push(String(Object.values(labels).at(-1)))
      },
      observe: () => {},
    },
  })
  const checked = await ask([{ row: 3, canonical }], { service, mode: 'live', options, signal })
  if (checked.kind !== 'answered') return counted
  const { status, reason, fields } = checked.verdicts.get(3)!
  return [status, reason, fields]
}

const GOOD = '+12127365000'
const BAD = '+12127365001'

type Fields = Readonly<Record<string, string>>
type Case = readonly [
  name: string, service: ServiceSlug, contact: string, status: string, reason: string,
  fields: Fields
]

describe('a preset that answers at once', () => {
  it.each<Case>([
    ['twilio', 'phone-validation', GOOD, 'valid', 'assigned_range',
      { carrier: 'AT&T Wireless', line_type: 'mobile' }],
    ['twilio', 'phone-validation', BAD, 'invalid', 'unassigned_range', {}],
    ['twilio', 'phone-validation', '+12127365002', 'valid', 'assigned_range',
      { carrier: 'AT&T Wireless', line_type: 'voip', voip_type: 'non_fixed' }],
    ['twilio', 'carrier-single', '+12127365006', 'valid', 'assigned_range', {
      carrier: 'AT&T Wireless', mcc: '310', mnc: '410', line_type: 'voip', voip_type: 'fixed',
    }],
    ['twilio', 'carrier-lookup', '+12127365004', 'valid', 'assigned_range',
      { mcc: '310', mnc: '410', line_type: 'mobile' }],
    ['telnyx', 'phone-validation', GOOD, 'valid', 'assigned_range',
      { carrier: 'Verizon Wireless', line_type: 'landline' }],
    ['telnyx', 'carrier-single', '+12127365002', 'valid', 'assigned_range',
      { carrier: 'Verizon Wireless', line_type: 'landline', ported: 'true' }],
    ['telnyx', 'carrier-single', '+12127365004', 'unknown', 'carrier_unknown',
      { line_type: 'landline', ported: 'false' }],
    ['telnyx', 'phone-validation', BAD, 'invalid', 'unassigned_range',
      { carrier: 'Verizon Wireless', line_type: 'landline' }],
    ['vonage', 'carrier-lookup', GOOD, 'valid', 'assigned_range',
      { carrier: 'AT&T Mobility', line_type: 'mobile', ported: 'false' }],
    ['vonage', 'carrier-lookup', BAD, 'unknown', 'carrier_unknown',
      { line_type: 'unknown', ported: 'false' }],
    ['reacher', 'email-validation', 'good@x.org', 'valid', 'deliverable',
      { disposable: 'false', role: 'false', catch_all: 'false', mx_found: 'true' }],
    ['reacher', 'email-validation', 'nomail@x.org', 'invalid', 'no_mail_service',
      { disposable: 'false', role: 'false', catch_all: 'false', mx_found: 'false' }],
    ['reacher', 'email-validation', 'full@x.org', 'risky', 'mailbox_full',
      { disposable: 'false', role: 'false', catch_all: 'false', mx_found: 'true' }],
    ['reacher', 'email-validation', 'unknown@x.org', 'unknown', 'no_answer', {}],
    ['bouncer', 'email-validation', 'good@x.org', 'valid', 'deliverable',
      { disposable: 'false', role: 'false', catch_all: 'false', free: 'false' }],
    ['bouncer', 'email-validation', 'bad@x.org', 'invalid', 'mailbox_not_found',
      { disposable: 'false', role: 'false', catch_all: 'false', free: 'false' }],
    ['bouncer', 'email-validation', 'disposable@x.org', 'risky', 'disposable_domain',
      { disposable: 'true', role: 'false', catch_all: 'false', free: 'false' }],
    ['bouncer', 'email-validation', 'odd@x.org', 'unknown', 'unclear_answer', {}],
    ['zerobounce', 'email-validation', 'good@x.org', 'valid', 'deliverable',
      { free: 'false', mx_found: 'true' }],
    ['zerobounce', 'email-validation', 'catchall@x.org', 'risky', 'catch_all',
      { free: 'false', mx_found: 'true', catch_all: 'true' }],
    ['zerobounce', 'email-validation', 'trap@x.org', 'risky', 'do_not_mail',
      { free: 'false', mx_found: 'true' }],
    ['zerobounce', 'email-validation', 'unknown@x.org', 'unknown', 'greylisted', {}],
  ])('%s, %s: the answer to %s is %s, %s', async (...[name, service, contact, ...expected]) => {
    expect(await check(`http:${name}`, service, contact)).toEqual(expected)
    expect(vendors.purchases.map(([bought]) => bought?.replace(/^\+/, '')))
      .toEqual([contact.replace(/^\+/, '')])
  })
})

const LINE = { carrier: 'AT&T Wireless', line_type: 'mobile' }
const SWAPPED = {
  sim_swap: 'true', sim_swap_period: 'PT24H', sim_swapped_at: '2026-04-27T10:18:50Z',
}

describe('the options of a preset', () => {
  it.each([
    [['line_status'], { line_status: 'reachable' }],
    [['call_forwarding', 'sim_swap'], { call_forwarding: 'false', ...SWAPPED }],
    [['reassigned_number:2021-10-15'],
      { reassigned_number: 'true', reassigned_since: '2021-10-15' }],
    [['sms_pumping_risk'], { sms_pumping_risk: '61', carrier_risk: 'moderate' }],
  ])('%j: a verdict with their columns and no others', async (options, fields) => {
    expect(await check('http:twilio', 'phone-validation', GOOD, options))
      .toEqual(['valid', 'assigned_range', { ...LINE, ...fields }])
    expect(vendors.purchases).toEqual([[GOOD]])
  })

  it.each(['line_status', 'sim_swap', 'call_forwarding', 'reassigned_number:2021-10-15'])(
    '%s without an answer: unknown, with what else is known', async option => {
      expect(await check('http:twilio', 'phone-validation', '+12127365008',
        ['sms_pumping_risk', option])).toMatchObject(['unknown', 'option_not_answered', {
        ...LINE, sms_pumping_risk: '61',
      }])
    })

  it('of a number that is not assigned: unknown, with the reason', async () => {
    expect(await check('http:twilio', 'phone-validation', BAD, ['line_status']))
      .toEqual(['unknown', 'unassigned_range', {}])
  })

  it('return no free text of the vendor', async () => {
    expect(await check('http:twilio', 'phone-validation', '+12127365004', ['sms_pumping_risk']))
      .toEqual(['valid', 'assigned_range', { line_type: 'mobile', sms_pumping_risk: '61' }])
  })

  it('are not asked of a vendor without them', async () => {
    expect(await check('http:telnyx', 'phone-validation', GOOD, ['line_status'])).toEqual([])
    expect(vendors.purchases).toEqual([])
  })
})

const SINGLE = ['twilio', 'telnyx', 'vonage', 'reacher', 'bouncer', 'zerobounce']
const SERVICE_OF: Readonly<Record<string, ServiceSlug>> = {
  twilio: 'phone-validation', telnyx: 'phone-validation', vonage: 'carrier-lookup',
}
/** The failure of each documented error. */
const FAILURES = {
  unauthorized: 'auth',
  empty: 'auth',
  limited: 'rate_limited',
  broken: 'bad_response',
  refusing: 'rejected_input',
} as const
const ERRORS = SINGLE.flatMap((name) => Object.entries(FAILURES).map(([mode, failure]) =>
  [name, mode as FakeMode, failure] as const))

describe('the errors of a preset', () => {
  it.each(ERRORS)('%s, %s: the failure is %s', async (
    name, mode, failure
  ) => {
    vendors.behave(mode)
    const service = SERVICE_OF[name] ?? 'email-validation'
    expect(await check(`http:${name}`, service, name in SERVICE_OF ? GOOD : 'good@x.org'))
      .toEqual([failure])
    expect(vendors.purchases).toEqual([])
  })
})

describe('the presets', () => {
  it('are those of the vendors in the documentation, each from pages of its own', () => {
    expect([...VENDOR_PRESETS.keys()]).toEqual([
      'http:bouncer', 'http:bouncer-batch', 'http:checknumber', 'http:reacher', 'http:telnyx',
      'http:twilio', 'http:vonage', 'http:zerobounce', 'http:zerobounce-batch',
    ])
    for (const { docs } of VENDOR_PRESETS.values()) {
      expect(docs.filter((page) => !page.startsWith('https://'))).toEqual([])
      expect(docs.length).toBeGreaterThan(0)
    }
  })

  it('have ids of their own', () => {
    const described = [...VENDOR_PRESETS.keys()].map((name) => presetAt(vendors.url, name))
    expect(readHttpProviders(described, true).faults).toEqual([])
    expect(readHttpProviders(described).faults)
      .toEqual(['ids from 900001 are those of presets; use a lower one'])
  })

  it('ask for keys that all have a form in the tests', () => {
    const settings = [...VENDOR_PRESETS.values()].map(({ key }) => key.setting)
    expect(new Set(settings)).toEqual(new Set([...Object.keys(FAKE_KEYS), 'VENDOR_REACHER_KEY']))
  })
})
