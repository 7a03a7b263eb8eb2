import { describe, expect, it } from 'vitest'
import { ApiError } from '../../../../services/client/client.ts'
import { apiMessage, faultOf, PageFault } from '../../../../services/workspace/page/page-fault.ts'

const answer = (status: number, code: string, message: string) =>
  new ApiError(new Response(null, { status }), JSON.stringify({ error: { code, message } }))

describe('what a failure is called', () => {
  it('is the message of the interface where that is for customers', () => {
    const error = answer(402, 'insufficient_balance', 'Top up the balance.')
    expect(apiMessage(error)).toBe('Top up the balance.')
    expect(faultOf(error)).toMatchObject({ status: 402, message: 'Top up the balance.' })
    expect(faultOf(answer(404, 'job_not_found', 'x'))).toMatchObject({ status: 404 })
  })

  it('hides what only this server can mend', () => {
    for (const status of [401, 503]) {
      expect(faultOf(answer(status, 'x', 'inner'))).toMatchObject({ status: 503 })
    }
    const lost = new TypeError('fetch failed', { cause: new Error('ECONNREFUSED 10.0.0.1') })
    expect(faultOf(lost)).toMatchObject({ status: 503 })
    expect(faultOf(new Error('secret detail')).message).not.toContain('secret')
    expect(faultOf(new Error('secret detail'))).toMatchObject({ status: 500 })
    expect(faultOf(Object.assign(new Error('x'), { statusCode: 415 })))
      .toMatchObject({ status: 400 })
    expect(faultOf(Object.assign(new Error('x'), { code: 'FST_ERR_CTP_BODY_TOO_LARGE' })))
      .toMatchObject({ status: 413 })
  })

  it('may say more than its code', () => {
    expect(faultOf(new PageFault('bad_form', 'Choose a scope.')))
      .toEqual({ status: 400, title: 'That did not work', message: 'Choose a scope.' })
  })
})
