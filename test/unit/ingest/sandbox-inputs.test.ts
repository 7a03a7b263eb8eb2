import { describe, expect, it } from 'vitest'
import { sandboxRefusal } from '../../../services/ingest/request.ts'
import { DEFAULT_PRICES_MICROS as prices } from '../../../services/money/prices.ts'
import { application, good } from './doubles.ts'

const phones = (...inputs: readonly string[]) =>
  sandboxRefusal({ service: 'phone-validation', inputs }, { mode: 'test', prices })
const emails = (...inputs: readonly string[]) =>
  sandboxRefusal({ service: 'email-validation', inputs }, { mode: 'test', prices })

describe('a sandbox input', () => {
  it.each(['+15005550402', '+1 (500) 555-0402', ' 15005550402 '])('is the number %s', input => {
    expect(phones('+12127365000', input)).toEqual({
      code: 'insufficient_balance', more: { requiredMicros: 4_000, availableMicros: 0 },
    })
  })

  it.each([
    'insufficient_balance@example.com', 'Insufficient_Balance+2@Example.com',
  ])('is the address %s', input => {
    expect(emails(input)?.code).toBe('insufficient_balance')
  })

  it('is no other, and none of the other kind', () => {
    expect(phones('+15005550401', '+12125550402', '15005550402'.repeat(9), '')).toBeUndefined()
    expect(phones('insufficient_balance@example.com')).toBeUndefined()
    expect(emails('a.insufficient_balance@example.com', '+15005550402')).toBeUndefined()
  })

  it('works with test keys only', async () => {
    const body = { ...good, inputs: ['+15005550402'] }
    const { post, calls } = application()
    const refused = await post(body, { key: 'test' })
    expect([refused.statusCode, refused.json().error]).toEqual([402, {
      type: 'payment',
      code: 'insufficient_balance',
      message: expect.stringContaining('The maximum counts rows from the cache too'),
      request_id: expect.any(String),
      requiredMicros: 2_000,
      availableMicros: 0,
    }])
    expect(calls.submissions).toEqual([])
    expect((await post(body)).statusCode).toBe(202)
  })

  it('refuses a quote as it refuses the job', async () => {
    const { app, calls } = application()
    const quote = (key: string) => app.inject({
      method: 'POST',
      url: '/api/v1/quotes',
      headers: { authorization: `Bearer ${key}` },
      payload: { ...good, inputs: ['+15005550402'] },
    })
    expect((await quote('test')).json().error)
      .toMatchObject({ code: 'insufficient_balance', requiredMicros: 2_000 })
    expect(calls.submissions).toEqual([])
    expect((await quote('live')).statusCode).toBe(200)
  })
})
