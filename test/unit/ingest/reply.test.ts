import Fastify, { LogController } from 'fastify'
import { describe, expect, it } from 'vitest'
import type { ApiError } from '../../../services/ingest/errors.ts'
import { sendAccepted, sendError } from '../../../services/ingest/response.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { jobOf } from './doubles.ts'

async function answerTo (fault: ApiError) {
  const app = Fastify({ genReqId: () => 'req_1' })
  app.get('/', (_request, reply) => sendError(reply, fault))
  return app.inject('/')
}

describe('an answer with a fault', () => {
  it('has the status, type and text of its code', async () => {
    const answer = await answerTo({ code: 'job_not_found' })
    expect(answer.statusCode).toBe(404)
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(answer.json()).toEqual({
      error: {
        type: 'not_found',
        code: 'job_not_found',
        message: 'There is no such job.',
        request_id: 'req_1',
      },
    })
  })

  it('has the text, field, members and headers of its own', async () => {
    const answer = await answerTo({
      code: 'invalid_request',
      message: 'inputs is missing.',
      param: 'inputs',
      more: { limit: 3 },
      headers: { allow: 'POST' },
    })
    expect(answer.headers.allow).toBe('POST')
    expect(answer.json().error).toEqual({
      type: 'invalid_request',
      code: 'invalid_request',
      message: 'inputs is missing.',
      param: 'inputs',
      limit: 3,
      request_id: 'req_1',
    })
  })

  it.each<[fault: ApiError, retryAfter: string | undefined]>([
    [{ code: 'rate_limited' }, '2'],
    [{ code: 'temporarily_unavailable', retryAfterSeconds: 0.2 }, '1'],
    [{ code: 'job_not_completed', retryAfterSeconds: 1.2 }, '2'],
    [{ code: 'job_not_found' }, undefined],
  ])('%j has a Retry-After of %s seconds', async (fault, retryAfter) => {
    expect((await answerTo(fault)).headers['retry-after']).toBe(retryAfter)
  })
})

it('an accepted job is named in the log, with the tenant', async () => {
  const lines: string[] = []
  const log = createLog('x', { destination: { write: line => lines.push(line) } })
  const logController = new LogController({ disableRequestLogging: true })
  const app = Fastify({ loggerInstance: log, logController })
  const job = jobOf()
  const accepted = { kind: 'accepted', job, replayed: true } as const
  app.get('/', (_request, reply) => sendAccepted(reply, accepted))
  const answer = await app.inject('/')
  expect([answer.statusCode, answer.headers['idempotent-replayed']]).toEqual([202, 'true'])
  expect(lines.map(line => JSON.parse(line) as object)).toEqual([
    expect.objectContaining({ msg: 'job accepted', job: job.id, tenant: job.tenant }),
  ])
})
