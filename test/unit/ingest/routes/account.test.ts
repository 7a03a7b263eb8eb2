import { describe, expect, it } from 'vitest'
import { referenceDataFor } from '../../../../services/jobs/reference-data.ts'
import { application, good, jobOf } from '../doubles.ts'

describe('the services', () => {
  it('have the prices and providers of live keys', async () => {
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
    const free = { mode: 'replace', version: '9', publishedAt: '2026-11-28', sha256: '' } as const
    const { get } = application({ lists: () => ({ renewedAt: '2026-11-28', lists: { free } }) })
    const { data } = (await get('/services')).json()
    const versions = data.map(({ data: used }: { data: { name: string, version: string }[] }) =>
      used.find(({ name }) => name === 'free_mail_domains')?.version)
    expect(versions).toEqual([undefined, undefined, undefined, undefined, undefined, '9'])
  })
})

describe('a quote', () => {
  const quote = async (body: object, more = {}) => {
    const { post, calls } = application(more)
    const answer = await post(body, { path: 'quotes' })
    return { answer, calls }
  }

  it('is the preflight, and can not be redeemed', async () => {
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
