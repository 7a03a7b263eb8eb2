import { describe, expect, it } from 'vitest'
import {
  answerTo, ended, MOMENT, newCustomer, newNumbers, openPost, service,
} from './support.ts'

const good = { service, inputs: ['+12127365000'] }
const MEGABYTE = 1_024 * 1_024

describe.concurrent('the size of a request', () => {
  it('an input over 320 characters is a free invalid row, however long',
    async () => {
      const { live } = await newCustomer()
      const inputs = ['1'.repeat(320), '1'.repeat(321), '1'.repeat(10_000_000)]
      const { json } = await live.ask('/quotes', { body: { service, inputs } })
      expect(json.preflight).toMatchObject({ totalRows: 3, invalidRows: 3, maxQuoteMicros: 0 })
      const { created, rows } = await ended(live, { service, inputs })
      expect(created.preflight.invalidRows).toBe(3)
      expect(rows.map(row => row.reason).slice(1)).toEqual(['too_long_input', 'too_long_input'])
      expect(rows[0]?.reason).not.toBe('too_long_input')
      expect(rows[2]?.input).toBe('1'.repeat(1_024))
    })
})

describe.concurrent('the fields of a request', () => {
  it('without forceFresh the cache is used, with it all is checked live', async () => {
    const { live } = await newCustomer()
    const inputs = newNumbers(2)
    expect((await ended(live, { service, inputs })).job.freshRecords).toBe(2)
    expect((await ended(live, { service, inputs })).job.cacheHits).toBe(2)
    const given = await ended(live, { service, inputs, forceFresh: false })
    expect(given.created.preflight).toMatchObject({ cacheHits: 2, freshChecks: 0 })
    const fresh = await ended(live, { service, inputs, forceFresh: true })
    expect(fresh.created.preflight).toMatchObject({ cacheHits: 0, freshChecks: 2 })
    expect(fresh.rows.map(row => row.source)).toEqual(['live', 'live'])
  })

  it('each service takes one kind of contact; the other is an invalid row', async () => {
    const { test } = await newCustomer()
    const inputs = ['+12127365000', 'jane@example.com']
    const slugs = ['phone-validation', 'whatsapp', 'telegram', 'carrier-single', 'carrier-lookup',
      'email-validation']
    await Promise.all(slugs.map(async slug => {
      const { rows } = await ended(test, { service: slug, inputs })
      const isEmail = slug === 'email-validation'
      expect([slug, ...rows.map(row => row.source === 'preflight')])
        .toEqual([slug, isEmail, !isEmail])
    }))
    const { status, code, json } = await test.ask('/jobs', { body: { ...good, service: 'fax' } })
    expect([status, code, json.error.param]).toEqual([400, 'unknown_service', 'service'])
    expect(json.error.services).toHaveLength(6)
    expect(json.error.message).toContain('carrier-lookup')
  })

  it('a live key may use the services that have a provider', async () => {
    const { live, test } = await newCustomer()
    const body = { service: 'telegram', inputs: ['x'] }
    const refused = await live.ask('/jobs', { body })
    expect([refused.status, refused.code]).toEqual([400, 'service_not_configured'])
    expect((await test.ask('/jobs', { body })).status).toBe(202)
  })
})

describe('a success', () => {
  it('is 202 with one body for both typings, and the path of the job', async () => {
    const { live } = await newCustomer()
    const inputs = [...newNumbers(2), 'no number']
    const { status, headers, json } = await live.ask('/jobs', { body: { service, inputs } })
    expect([status, headers.get('content-type')])
      .toEqual([202, 'application/json; charset=utf-8'])
    expect(json).toEqual({
      id: expect.stringMatching(/^job_[0-9a-z]{26}$/),
      status: 'queued',
      preflight: {
        totalRows: 3,
        invalidRows: 1,
        duplicateRows: 0,
        cacheHits: 0,
        freshChecks: 2,
        maxQuoteMicros: 4_000,
        quoteId: expect.stringMatching(/^quot_[0-9a-z]{26}$/),
      },
      ok: true,
      data: {
        id: json.id,
        service,
        status: 'queued',
        item_count: 3,
        max_quote_micros: 4_000,
        created_at: expect.stringMatching(MOMENT),
      },
    })
    expect(headers.get('location')).toBe(`/api/v1/jobs/${json.id}`)
    await live.client.waitForEnd(json.id)
  })

  it('memory for bodies in flight is bounded: beyond it 503 before reading', async () => {
    const { test } = await newCustomer()
    const opened = openPost(test, '/jobs', 34 * MEGABYTE)
    // Memory is taken as bytes arrive, not as they are announced.
    opened.write(' '.repeat(33 * MEGABYTE))
    const second = async () => {
      const sent = openPost(test, '/quotes', 20 * MEGABYTE)
      const answer = await answerTo(sent)
      sent.destroy()
      return answer
    }
    await expect.poll(async () => (await second()).json.error.code)
      .toBe('temporarily_unavailable')
    const { status, headers } = await second()
    expect([status, Number(headers['retry-after']) >= 1]).toEqual([503, true])
    opened.destroy()
    await expect.poll(async () => (await test.ask('/jobs', { body: good })).status).toBe(202)
  })
})
