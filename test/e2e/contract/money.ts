import { taggedTenant } from '../../../services/money/redis-keys.ts'
import { describe, expect, it } from 'vitest'
import { referenceDataFor } from '../../../services/jobs/reference-data.ts'
import { ended, newCustomer, newNumbers, service, shared, whileHalted } from './support.ts'

const PRICE = 2_000

it('the maximum price ' +
  'is the unit price for fresh checks and cache hits, never for duplicates or invalid rows; ' +
  'cache hits are reserved and released at the end', async () => {
  const { live } = await newCustomer()
  const known = newNumbers(2)
  await ended(live, { service, inputs: known })
  const fresh = newNumbers(3)
  const inputs = [...known, ...fresh, ...fresh, known[0] ?? '', 'no number', '']
  const before = await live.client.balance()
  const halted = await whileHalted('verify-1', async () => {
    const { id, preflight } = await live.client.createJob({ service, inputs })
    return { id, preflight, during: await live.client.balance() }
  })
  expect(halted.preflight).toMatchObject({
    totalRows: 11,
    invalidRows: 2,
    duplicateRows: 4,
    cacheHits: 2,
    freshChecks: 3,
    maxQuoteMicros: 5 * PRICE,
  })
  expect(halted.during).toEqual({
    ...before,
    reservedMicros: 5 * PRICE,
    availableMicros: before.availableMicros - 5 * PRICE,
  })
  const job = await live.client.waitForEnd(halted.id)
  expect(job).toMatchObject({ chargedMicros: 3 * PRICE, releasedMicros: 2 * PRICE })
  const balanceMicros = before.balanceMicros - 3 * PRICE
  expect(await live.client.balance()).toEqual({
    balanceMicros, reservedMicros: 0, availableMicros: balanceMicros, currency: 'USD',
  })
})

it.each([
  ['carrier-lookup', ['+447400123456', '+12127365000', '+15555555555'],
    ['valid live', 'unknown none', 'unknown none']],
  ['carrier-single', ['+12127360008', '+12127360001'], ['valid live', 'unknown none']],
  ['email-validation',
    ['jane@mailinator.com', 'jane@example.com', 'sales@mail.org', 'jane@mail.org'],
    ['risky live', 'invalid live', 'unknown none', 'unknown none']],
])('a row of %s is paid only for a requested verdict', async (slug, inputs, verdicts) => {
  const { live } = await newCustomer()
  const { job, rows } = await ended(live, { service: slug, inputs })
  expect(rows.map(({ status, source }) => `${status} ${source}`)).toEqual(verdicts)
  const sold = rows.filter(({ source }) => source === 'live')
  const service = (await live.client.services()).find(it => it.slug === slug)
  expect([job.freshRecords, job.chargedMicros, job.unknownRecords])
    .toEqual([sold.length, sold.length * service!.priceMicros, inputs.length - sold.length])
  if (slug === 'email-validation') return
  expect(sold.filter(({ carrier, mcc, mnc }) => carrier === '' && (mcc === '' || mnc === '')))
    .toEqual([])
})

it('the balance is compared with the maximum, to which rows from the cache count', async () => {
  const { live } = await newCustomer(2 * PRICE)
  const wanted = { service, inputs: newNumbers(2) }
  await ended(live, wanted)
  const { status, json: { error } } = await live.ask('/jobs', { body: wanted })
  expect([status, error]).toMatchObject([402, {
    code: 'insufficient_balance',
    requiredMicros: 2 * PRICE,
    availableMicros: 0,
    message: expect.stringMatching(/rows from the cache .* reserved/),
  }])
  const { job } = await ended(live, { service, inputs: ['call me', ''] })
  expect([job.status, job.maxQuoteMicros]).toEqual(['completed', 0])
  expect((await live.client.jobsPage()).data).toHaveLength(2)
})

it('a quote reserves nothing, makes no job, and its data key is deleted at once', async () => {
  const { live } = await newCustomer()
  const inputs = newNumbers(3)
  const quoted = await live.client.quote({ service, inputs })
  expect(quoted).toMatchObject({
    service, redeemable: false, preflight: { freshChecks: 3, maxQuoteMicros: 3 * PRICE },
  })
  expect(await shared().redis.keys(`dek:${taggedTenant(live.tenant)}:*`)).toEqual([])
  expect(await live.client.balance()).toMatchObject({ reservedMicros: 0 })
  expect((await live.client.jobsPage()).data).toEqual([])
  const { preflight } = await live.client.createJob({ service, inputs })
  expect(preflight).toEqual({ ...quoted.preflight, quoteId: preflight.quoteId })
  expect(preflight.quoteId).not.toBe(quoted.preflight.quoteId)
})

describe('the services', () => {
  it('are listed with kind of contact, price and further columns', async () => {
    const { live, test } = await newCustomer()
    const services = await live.client.services()
    expect(services[0]).toEqual({
      slug: service,
      inputKind: 'phone',
      priceMicros: PRICE,
      columns: ['timezone', 'national_format', 'extension', 'vanity', 'voip_type'],
      options: [],
      configured: true,
      checks: ['syntax'],
      limitations: [],
      data: referenceDataFor('phone', Date.now()),
    })
    expect(services.map(it => `${it.slug} ${it.inputKind} ${it.configured}`).toSorted()).toEqual([
      'carrier-lookup phone true', 'carrier-single phone true', 'email-validation email true',
      'phone-validation phone true', 'telegram phone false', 'whatsapp phone true',
    ])
    await Promise.all(services.map(async ({ slug, columns }) => {
      const { rows } = await ended(test, { service: slug, inputs: ['x'] })
      expect([slug, ...Object.keys(rows[0] ?? {}).slice(17)]).toEqual([slug, ...columns])
    }))
    const ofTests = await test.client.services()
    expect(ofTests.filter(it => it.priceMicros !== 0 || !it.configured)).toEqual([])
    expect(ofTests[5]).toMatchObject({ checks: [], limitations: [] })
  })

  it('cost and check what a quote says', async () => {
    const { live } = await newCustomer()
    const services = await live.client.services()
    for (const { slug, configured, checks, limitations, inputKind, priceMicros } of services) {
      expect([slug, configured]).toEqual([slug, checks.length > 0])
      if (!configured) continue
      const inputs = [inputKind === 'email' ? 'jane@mail.org' : '+447400123456']
      expect(await live.client.quote({ service: slug, inputs }))
        .toMatchObject({ checks, limitations, preflight: { maxQuoteMicros: priceMicros } })
    }
    expect(services.find(({ slug }) => slug === 'carrier-lookup')?.limitations)
      .toContain('carrier_of_range')
  })
})
