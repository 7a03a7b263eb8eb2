import { describe, expect, it } from 'vitest'
import { ApiError } from '../../../services/client/client.ts'
import { FatalError } from '../../../services/runtime/platform/errors.ts'
import {
  apiMessage, errorContentOf, PageError,
} from '../../../services/page/page-error.ts'

const answer = (status: number, code: string, message: string) =>
  new ApiError(new Response(null, { status }), JSON.stringify({ error: { code, message } }))

describe('the error page', () => {
  it('shows messages of the REST interface that are written for customers', () => {
    const error = answer(402, 'insufficient_balance', 'Top up the balance.')
    expect(apiMessage(error)).toBe('Top up the balance.')
    expect(errorContentOf(error)).toMatchObject({ status: 402, message: 'Top up the balance.' })
    expect(errorContentOf(answer(404, 'job_not_found', 'x'))).toMatchObject({ status: 404 })
  })

  it('hides details that customers cannot fix', () => {
    for (const status of [401, 503]) {
      expect(errorContentOf(answer(status, 'x', 'inner'))).toMatchObject({ status: 503 })
    }
    const lost = new TypeError('fetch failed', { cause: new Error('ECONNREFUSED 10.0.0.1') })
    expect(errorContentOf(lost)).toMatchObject({ status: 503 })
    const missing = errorContentOf(new FatalError('WEBHOOKS_ROOT_KEYS lacks key "1"'))
    expect(missing.status).toBe(503)
    expect(missing.message).not.toContain('ROOT_KEYS')
    expect(errorContentOf(new Error('secret detail')).message).not.toContain('secret')
    expect(errorContentOf(new Error('secret detail'))).toMatchObject({ status: 500 })
    expect(errorContentOf(Object.assign(new Error('x'), { statusCode: 415 })))
      .toMatchObject({ status: 400 })
    expect(errorContentOf(Object.assign(new Error('x'), { code: 'FST_ERR_CTP_BODY_TOO_LARGE' })))
      .toMatchObject({ status: 413 })
  })

  it('can have a specific message', () => {
    expect(errorContentOf(new PageError('bad_form', 'Choose a scope.')))
      .toEqual({ status: 400, title: 'That did not work', message: 'Choose a scope.' })
  })
})
