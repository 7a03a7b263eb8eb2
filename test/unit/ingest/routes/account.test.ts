import { describe, expect, it } from 'vitest'
import { referenceDataFor } from '../../../../services/jobs/reference-data.ts'
import { createBodyBudget } from '../../../../services/ingest/body.ts'
import {
  getBalanceRoute, getServicesRoute, servicesBody,
} from '../../../../services/ingest/routes/account.ts'
import { createQuoteRoute } from '../../../../services/ingest/routes/create-quote.ts'
import { application, doubles, good, jobOf, settings } from '../doubles.ts'

describe('the balance', () => {
  it('is what is available and what is reserved', async () => {
    expect(getBalanceRoute(doubles()).config).toMatchObject({ scope: 'usage:read' })
    const { get } = application()
    expect((await get('/balance')).json()).toEqual({
      balanceMicros: 10, reservedMicros: 3, availableMicros: 7, currency: 'USD',
    })
  })
})

describe('the services', () => {
  it('have the prices and providers of live keys', async () => {
    expect(getServicesRoute(doubles(), settings).config).toMatchObject({ scope: 'jobs:read' })
    const { get } = application()
    const { data } = (await get('/services')).json()
    expect(data[1]).toEqual({
      slug: 'whatsapp',
      inputKind: 'phone',
      priceMicros: 4_000,
      columns: ['whatsapp', 'extension', 'vanity'],
      options: [],
      configured: false,
      checks: [],
      limitations: [],
      data: referenceDataFor('phone', Date.now()),
    })
    expect(data[0].data.map((one: { name: string }) => one.name)).toContain('number_ranges')
    expect(data[5]).toMatchObject({
      checks: ['syntax', 'lists'], limitations: ['domain_not_checked', 'mailbox_not_checked'],
    })
    expect(data.map((one: { configured: boolean }) => one.configured))
      .toEqual([true, false, false, false, false, true])
  })

  it('name the lists in use', async () => {
    const free = {
      mode: 'replace', version: '9', publishedAt: '2026-11-28', sha256: '',
    } as const
    const { get } = application({ lists: () => ({ renewedAt: '2026-11-28', lists: { free } }) })
    const { data } = (await get('/services')).json()
    const versions = data.map(({ data: used }: { data: { name: string, version: string }[] }) =>
      used.find(({ name }) => name === 'free_mail_domains')?.version)
    expect(versions).toEqual([undefined, undefined, undefined, undefined, undefined, '9'])
  })

  it('are free and all there for test keys', () => {
    const { data } = servicesBody(settings, 'test')
    expect(data.map(one => [one.priceMicros, one.configured, one.checks, one.limitations]))
      .toEqual(Array(6).fill([0, true, [], []]))
  })
})

describe('a quote', () => {
  const quote = async (body: object, more = {}) => {
    const { app, calls } = application(more)
    const answer = await app.inject({
      method: 'POST',
      url: '/api/v1/quotes',
      payload: body,
      headers: { authorization: 'Bearer live' },
    })
    return { answer, calls }
  }

  it('is the preflight, and can not be redeemed', async () => {
    const budget = createBodyBudget(1)
    expect(createQuoteRoute(doubles(), settings, budget).config)
      .toMatchObject({ scope: 'jobs:write', preflight: 'keyless' })
    const { answer, calls } = await quote(good)
    expect([answer.statusCode, answer.json()]).toEqual([200, {
      preflight: jobOf().preflight,
      service: 'phone-validation',
      checks: ['syntax', 'vendor'],
      limitations: [],
      redeemable: false,
      expiresAt: '2026-08-11T10:01:25.000Z',
    }])
    expect(calls.submissions).toMatchObject([{ ...good, idempotencyKey: '' }])
  })

  it('of a service that can only guess says what is not checked', async () => {
    const { answer } = await quote({ service: 'email-validation', inputs: ['jane@ietf.org'] })
    expect(answer.json()).toMatchObject({
      checks: ['syntax', 'lists'], limitations: ['domain_not_checked', 'mailbox_not_checked'],
    })
  })

  it('is refused as the job would be', async () => {
    const { answer } = await quote({ ...good, service: 'fax' })
    expect([answer.statusCode, answer.json().error.code]).toEqual([400, 'unknown_service'])
    const expired = { quote: async () => ({ kind: 'refused', refusal: { code: 'expired' } }) }
    expect((await quote(good, expired)).answer.statusCode).toBe(503)
  })
})
