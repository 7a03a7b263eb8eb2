import { beforeEach, describe, expect, it } from 'vitest'
import type { ServiceSlug } from '../../services/topology.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { ask, startEnvironment } from '../support/stacks/environment.ts'
import { FAKE_WORDS, presetAt, startFakeVendors } from '../support/vendors/fake-vendors.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'

const LISTS: Readonly<Record<ServiceSlug, readonly string[]>> = {
  'phone-validation': ['twilio'],
  'carrier-single': ['telnyx'],
  'carrier-lookup': ['vonage'],
  whatsapp: ['checknumber'],
  telegram: ['checknumber'],
  'email-validation': [
    'bouncer-batch', 'zerobounce-batch', 'reacher', 'bouncer', 'zerobounce',
  ],
}
const NAMES = [...new Set(Object.values(LISTS).flat())]
const providersOf = (names: readonly string[]) =>
  names.map(name => `http:${NAMES.indexOf(name) + 1}`)

const receiver = await startReceiver(response => { response.writeHead(200).end() })
const heard: string[] = []
const vendors = closeAfterAll(await startFakeVendors())
const described = NAMES.map((name, index) => {
  const vendor = presetAt(vendors.url, `http:${name}`, { id: index + 1 })
  return 'batch' in vendor
    ? { ...vendor, batch: { ...vendor.batch as object, pollMs: 1_000 } }
    : vendor
})
const lists = Object.entries(LISTS).map(([slug, names]) => [slug, providersOf(names)])
const environment = closeAfterAll(await startEnvironment({
  HTTP_PROVIDERS: JSON.stringify(described),
  PROVIDERS: JSON.stringify(Object.fromEntries(lists)),
  RETRY_DELAY_MS: '100',
  RETRY_DEADLINE_MS: '300',
  PROVIDER_RETRIES: '0',
  PROVIDER_OPEN_PERCENT: '99',
  PRICES: JSON.stringify({ 'phone-validation': 2_000 }),
  OPTION_PRICES: JSON.stringify({ sim_swap: 100_000, line_status: 9_000, reassigned_number: 1 }),
}, { stages: ['ingest', 'lookup', 'verify'] }))
beforeEach(() => {
  vendors.behave('well')
  vendors.purchases.length = vendors.calls.length = 0
})

let serial = 0
const inputsOf = (service: string) => service === 'email-validation'
  ? ['good', 'bad', 'role', 'odd'].map(kind => `${kind}${++serial}@ietf.org`)
  : ['0', '1', '2', '4'].map(digit => `+1212${7_300_000 + 10 * ++serial + Number(digit)}`)

/** Everything that a customer can read of a job, headers included. */
async function readAll (id: string): Promise<void> {
  const paths = [
    `/jobs/${id}`, `/jobs/${id}/results`, `/jobs/${id}/results?format=json`,
    `/jobs/${id}/results?format=jsonl`, `/jobs/${id}/deliveries`, '/services', '/jobs', '/nothing',
  ]
  for (const path of paths) {
    const { headers, text } = await ask(`${environment.baseUrl}${path}`, {
      key: environment.keys.live,
    })
    heard.push(JSON.stringify([...headers]), text)
  }
}

async function runAll () {
  return await Promise.all(Object.keys(LISTS).map(async service => {
    const { id } = await environment.live.createJob({
      service,
      inputs: inputsOf(service),
      webhook_url: `http://127.0.0.1:${receiver.port}/${service}`,
    })
    const job = await environment.live.waitForEnd(id)
    await readAll(id)
    return job
  }))
}

describe('a job with options', () => {
  const verify = async (inputs: readonly string[], options: readonly string[] = []) => {
    const { id, preflight } = await environment.live.createJob({
      service: 'phone-validation', inputs, ...options.length > 0 && { options },
    })
    const { chargedMicros } = await environment.live.waitForEnd(id)
    await readAll(id)
    return { id, hits: preflight.cacheHits, quoted: preflight.maxQuoteMicros, chargedMicros }
  }
  const cellsOf = async (id: string, columns: readonly string[]) => {
    const { data } = await environment.live.resultsPage(id)
    return data.map(row => columns.map(name => row[name]))
  }

  it('pays their prices for the rows that they answer, and has their columns', async () => {
    const { id, quoted, chargedMicros } = await verify(
      ['+12127390000', '+12127390008', '+12127390001', 'nobody'], ['sim_swap', 'line_status'])
    expect([quoted, chargedMicros]).toEqual([3 * 111_000, 111_000])
    const columns = ['status', 'reason', 'line_type', 'line_status', 'sim_swap']
    expect(await cellsOf(id, columns)).toEqual([
      ['valid', 'assigned_range', 'mobile', 'reachable', true],
      ['unknown', 'option_not_answered', 'mobile', null, null],
      ['unknown', 'unassigned_range', null, null, null],
      ['invalid', 'not_a_phone_number', null, null, null],
    ])
    const csv = await environment.live.results(id)
    expect(csv.split('\r\n')[0]).toMatch(
      /,voip_type,line_status,sim_swap,sim_swap_period,sim_swapped_at$/)
    expect((await environment.live.job(id)).options).toEqual(['line_status', 'sim_swap'])
  })

  it('takes what is cached only if it has the options, and has its answers cached', async () => {
    const number = '+12127391000'
    const [first, second] = ['2026-01-01', '2026-01-02'].map(day => [`reassigned_number:${day}`])
    const bought = { hits: 0, chargedMicros: 2_001 }
    expect(await verify([number])).toMatchObject({ hits: 0, chargedMicros: 2_000 })
    expect(await verify([number], first)).toMatchObject(bought)
    expect(await verify([number], first)).toMatchObject({ hits: 1, chargedMicros: 0 })
    expect(await verify([number], second)).toMatchObject(bought)
    expect(await verify([number], ['sim_swap'])).toMatchObject({ hits: 0, chargedMicros: 102_000 })
    const plain = await verify([number])
    expect(plain).toMatchObject({ hits: 1, chargedMicros: 0 })
    expect(await cellsOf(plain.id, ['status', 'sim_swap'])).toEqual([['valid', undefined]])
    expect(vendors.purchases).toHaveLength(4)
  })

  it.each([
    ['whatsapp', ['sim_swap'], 'It has no options: leave the field out.'],
    ['phone-validation', ['call_forwarding'],
      'Its options: line_status, sim_swap, reassigned_number.'],
    ['phone-validation', ['reassigned_number'], 'options'],
    ['phone-validation', ['reassigned_number:2026-02-30'], 'not a day of the past'],
    ['phone-validation', ['reassigned_number:2999-01-01'], 'not a day of the past'],
    ['phone-validation', ['sim_swap', 'sim_swap'], 'options has a value twice'],
    ['phone-validation', ['reassigned_number:2026-01-01', 'reassigned_number:2026-01-02'],
      'options has one twice'],
  ])('is refused: %s with %j', async (service, options, message) => {
    await expect(environment.live.createJob({ service, inputs: ['+12127390000'], options }))
      .rejects.toMatchObject({
        status: 400,
        code: 'invalid_request',
        message: expect.stringContaining(message) as unknown,
      })
    expect(vendors.calls).toEqual([])
  })
})

describe('jobs of the presets', () => {
  it('end with the verdicts of the vendors, charged once each', async () => {
    const jobs = await runAll()
    const counts = jobs.map(({ service, freshRecords }) => [service, freshRecords])
    expect(Object.fromEntries(counts)).toEqual({
      'phone-validation': 4,
      'carrier-single': 3,
      'carrier-lookup': 3,
      whatsapp: 4,
      telegram: 4,
      'email-validation': 3,
    })
    const bought = vendors.purchases.flat()
    expect(bought).toHaveLength(new Set(bought).size)
  })

  it('end unknown and free if every vendor of their service fails', async () => {
    vendors.behave('unauthorized')
    const jobs = await runAll()
    expect(jobs.map(({ unknownRecords, chargedMicros }) => [unknownRecords, chargedMicros]))
      .toEqual(jobs.map(() => [4, 0]))
    const paths = new Set(vendors.calls.map(call => call.split('/').slice(0, 5).join('/')))
    expect(paths.size).toBeGreaterThanOrEqual(10)
    expect(vendors.purchases).toEqual([])
  })

  it('have no word of a vendor in an answer, a file or an event', async () => {
    const { received } = receiver
    await eventually(async () => expect(received).toHaveLength(12))
    const events = received.map(event => JSON.stringify(event))
    const text = [...heard, ...events].join('\n').toLowerCase()
    expect(text).toContain('job.completed')
    expect(FAKE_WORDS.filter(word => text.includes(word.toLowerCase()))).toEqual([])
  })
})
