import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { VENDOR_PRESETS } from '../../../../services/jobs/checks.ts'
import { Checker } from '../../../../services/verify/checker.ts'
import { readHttpProviders } from '../../../../services/verify/providers/http-vendor.ts'
import { createVendorProvider } from '../../../../services/verify/providers/http.ts'
import type { ServiceSlug } from '../../../../services/topology.ts'
import { closeAfterAll } from '../../../support/close-after-all.ts'
import { root } from '../../../support/sources.ts'
import { PROVIDER_LIMITS } from '../../../support/stage-messages.ts'
import {
  BAD, FAKE_VENDORS, type FakeMode, GOOD, presetAt, startFakeVendors,
} from '../../../support/vendors/fake-vendors.ts'

const vendors = closeAfterAll(await startFakeVendors())
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
  const checker = new Checker({
    lists: { [service]: ['http:1'] },
    limits: PROVIDER_LIMITS,
    factories: { 'http:1': () => createVendorProvider(vendor!) },
    metrics: {
      // The last label is the outcome.
      count: (_, labels, more = 1) => {
        if (more > 0) counted.push(String(Object.values(labels).at(-1)))
      },
      observe: () => {},
      watch: () => {},
    },
  })
  const checked =
    await checker.check([{ row: 3, canonical }], { service, mode: 'live', options, signal })
  const verdict = checked.verdicts.get(3)
  if (verdict === undefined) return counted
  const { status, reason, fields } = verdict
  return [status, reason, fields]
}

const VERDICTS = Object.values(FAKE_VENDORS).flatMap(({ verdicts = [] }) => verdicts)

it.each(VERDICTS)('a preset that answers at once %s, %s: the answer to %s is %s, %s', async (
  ...[name, service, contact, ...expected]
) => {
  expect(await check(`http:${name}`, service, contact)).toEqual(expected)
  expect(vendors.purchases.map(([bought]) => bought?.replace(/^\+/, '')))
    .toEqual([contact.replace(/^\+/, '')])
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

/** A service and a contact of each preset that answers at once. */
const ASKED = new Map(VERDICTS.toReversed().map(([name, service, contact]) =>
  [name, [service, contact] as const]))
/** The failure of each documented error. */
const FAILURES = {
  unauthorized: 'auth',
  empty: 'auth',
  limited: 'rate_limited',
  broken: 'bad_response',
  refusing: 'rejected_input',
} as const
const ERRORS = [...ASKED].flatMap(([name, asked]) =>
  Object.entries(FAILURES).map(([mode, failure]) =>
    [name, mode as FakeMode, failure, ...asked] as const))

it.each(ERRORS)('the errors of a preset ' +
  '%s, %s: the failure is %s', async (name, mode, failure, service, contact) => {
  vendors.behave(mode)
  expect(await check(`http:${name}`, service, contact)).toEqual([failure])
  expect(vendors.purchases).toEqual([])
})

describe('the presets', () => {
  it('are those of the vendors in the documentation, each from pages of its own', () => {
    const page = readFileSync(join(root, 'deploy/docs/providers.md'), 'utf8')
    const rows = [...page.matchAll(/^\| `(http:[\w-]+)`/gm)].map(([, name]) => name)
    expect(rows.toSorted(), 'a row for each file of deploy/providers/ in the table "Presets" of ' +
      'deploy/docs/providers.md').toEqual([...VENDOR_PRESETS.keys()])
    for (const { docs } of VENDOR_PRESETS.values()) {
      expect(docs.filter((page) => !page.startsWith('https://'))).toEqual([])
      expect(docs.length).toBeGreaterThan(0)
    }
  })

  it('that take batches read the words of their vendor as the ones that do not', () => {
    const words = (name: string) => {
      const { response } = VENDOR_PRESETS.get(name)!.vendor as unknown as {
        response: Record<'verdict' | 'reason' | 'fields', object>,
      }
      // The batch of a vendor may have other places for them.
      return JSON.parse(JSON.stringify([response.verdict, response.reason, response.fields],
        (key, value: unknown) => key === 'pointer' ? undefined : value)) as unknown
    }
    const batches = [...VENDOR_PRESETS.keys()].filter(name => name.endsWith('-batch'))
    expect(batches.length).toBeGreaterThan(0)
    for (const name of batches) {
      expect(words(name), name).toEqual(words(name.replace(/-batch$/, '')))
    }
  })

  it('have ids of their own', () => {
    const described = [...VENDOR_PRESETS.keys()].map((name) => presetAt(vendors.url, name))
    expect(readHttpProviders(described, true).faults).toEqual([])
    expect(readHttpProviders(described).faults)
      .toEqual(['ids from 900001 are those of presets; use a lower one'])
  })

  it('each have a fake that states a verdict', () => {
    const settings = [...VENDOR_PRESETS.values()].map(({ key }) => key.setting)
    expect(Object.keys(FAKE_VENDORS).toSorted(),
      'a fake in FAKE_VENDORS (test/support/vendors/) for each key of deploy/providers/')
      .toEqual([...new Set(settings)].toSorted())
    const tested = Object.values(FAKE_VENDORS).flatMap(({ verdicts = [], batches = [] }) =>
      [...verdicts, ...batches].map(([name]) => `http:${name}`))
    expect([...new Set(tested)].toSorted(),
      '`verdicts` or `batches` of the fakes for each file of deploy/providers/')
      .toEqual([...VENDOR_PRESETS.keys()])
  })
})
