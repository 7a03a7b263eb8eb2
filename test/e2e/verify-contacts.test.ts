import { describe, expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { balanceOf } from '../support/organizations.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'

const inputs = [
  '+12127365000', '(212) 736-5000', '1 212 736 5000', 'call me', '+442079460958', '+1',
  '212.736.5000', '+33142685300', '+4930901820', '+61293744000',
]
const request = { service: 'phone-validation', inputs, countryCode: 'US' }

const environment = closeAfterAll(await startEnvironment())

const balance = () => balanceOf(environment.env, environment.orgId)

describe('a batch of phone numbers', () => {
  it('is counted, paid for, verified and returned once each in order', async () => {
    const before = await balance()
    const { created, job, rows } = await runJob(environment.live, request)
    expect(created.preflight).toMatchObject({
      totalRows: 10, invalidRows: 2, duplicateRows: 3, cacheHits: 0, freshChecks: 5,
    })
    expect(created).toMatchObject({ status: 'queued', id: expect.stringMatching(/^job_/) })
    expect(job).toMatchObject({
      status: 'completed',
      totalRows: 10,
      invalidRows: 2,
      duplicateRows: 3,
      cacheHits: 0,
      freshRecords: 5,
      successRecords: 8,
      failedRecords: 2,
      progressPercent: 100,
    })
    expect(rows.map(row => row.row)).toEqual(inputs.map((_, index) => String(index + 1)))
    expect(rows.map(row => row.input)).toEqual(inputs)
    const price = created.preflight.maxQuoteMicros / 5
    expect(price).toBeGreaterThan(0)
    expect(job.chargedMicros).toBe(rows.filter(row =>
      row.source === 'live' && row.status !== 'unknown').length * price)
    const after = await balance()
    expect(after.availableMicros).toBe(before.availableMicros - job.chargedMicros)
    expect(after.reservedMicros).toBe(0)
  })

  it('is answered from the cache the second time, free of charge', async () => {
    const before = await balance()
    const { created, job, rows } = await runJob(environment.live, request)
    expect(created.preflight).toMatchObject({ cacheHits: 5, freshChecks: 0 })
    expect(created.preflight.maxQuoteMicros).toBeGreaterThan(0)
    expect(job).toMatchObject({ chargedMicros: 0, cacheHits: 5, freshRecords: 0 })
    expect(job.releasedMicros).toBe(created.preflight.maxQuoteMicros)
    expect(rows.map(row => row.source)).toEqual([
      'cache', 'duplicate', 'duplicate', 'preflight', 'cache', 'preflight', 'duplicate', 'cache',
      'cache', 'cache',
    ])
    expect(await balance()).toMatchObject({
      availableMicros: before.availableMicros, reservedMicros: 0,
    })
  })

  it('is verified live again on request', async () => {
    const { job, rows } = await runJob(environment.live, { ...request, forceFresh: true })
    expect(job).toMatchObject({ cacheHits: 0, freshRecords: 5 })
    expect(rows.filter(row => row.source === 'cache')).toEqual([])
  })

  it('fills every column as documented', async () => {
    const { rows } = await runJob(environment.live, request)
    expect(rows[1]).toMatchObject({
      phone: '+1 212 736 5000',
      e164: '+12127365000',
      country: 'US',
      status: rows[0]?.status,
      duplicate_of: '1',
      generation_basis: '',
    })
    expect(rows[3]).toMatchObject({ status: 'invalid', phone: '', e164: '', source: 'preflight' })
    for (const row of rows) {
      expect(row.checked_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      expect(row.expires_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    }
  })
})

describe('a batch of e-mail addresses', () => {
  it('returns what the lists determine, and never charges for the rest', async () => {
    const inputs = [
      'jane@mailinator.com', 'info@ietf.org', 'jane@gmial.com', 'no address', 'JANE@ietf.org',
    ]
    const { job, rows } = await runJob(environment.live, { service: 'email-validation', inputs })
    expect(rows.map(row => row.status)).toEqual(['risky', 'unknown', 'risky', 'invalid', 'unknown'])
    expect(rows.map(row => row.input)).toEqual(inputs)
    expect(job).toMatchObject({
      invalidRows: 1, freshRecords: 2, unknownRecords: 2, failedRecords: 3, successRecords: 2,
    })
  })
})

describe('a batch of a carrier service', () => {
  it('charges only rows with a carrier, which the other service then finds cached', async () => {
    const inputs = ['+4915112345678', '+12127365000', '+15555555555']
    const single = await runJob(environment.live, { service: 'carrier-single', inputs })
    expect(single.rows.map(row => [row.status, row.reason, row.carrier, row.confidence])).toEqual([
      ['valid', 'assigned_range', 'T-Mobile', '60'], ['unknown', 'carrier_unknown', '', '0'],
      ['unknown', 'unassigned_range', '', '0'],
    ])
    expect(single.job.chargedMicros * 3).toBe(single.created.preflight.maxQuoteMicros)
    const again = await runJob(environment.live, { service: 'carrier-lookup', inputs })
    expect(again.created.preflight).toMatchObject({ cacheHits: 1, freshChecks: 2 })
    expect(again.rows[0]).toMatchObject({ source: 'cache', carrier: 'T-Mobile' })
    expect(again.job.chargedMicros).toBe(0)
  })
})

describe('a test key', () => {
  it('verifies every service in the sandbox free of charge', async () => {
    for (const service of ['whatsapp', 'telegram', 'carrier-single', 'carrier-lookup']) {
      const { job, rows } = await runJob(environment.test, { service, inputs: ['+12127365000'] })
      expect([service, job.chargedMicros, rows[0]?.status]).toEqual([service, 0, 'valid'])
    }
  })

  it('shares no cache with the live keys', async () => {
    const { created } = await runJob(environment.test, request)
    expect(created.preflight.cacheHits).toBe(0)
  })
})
