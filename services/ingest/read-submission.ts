import type { FastifyRequest } from 'fastify'
import type { CreateJobBody } from '../../schemas/api/create-job.ts'
import type { Submission } from '../jobs/submit.ts'
import type { ApiError } from './errors.ts'
import { fingerprintOf } from './fingerprint.ts'
import { callerOf } from './guard.ts'
import { sandboxRefusal } from './sandbox-inputs.ts'
import type { Rules } from './rules.ts'
import { readIdempotencyKey, readJobRequest } from './request.ts'

/**
 * What a request for a job or a quote asks for, or why it can't be had; a test key may ask for a
 * refusal by a magic input. The idempotency key is undefined when the request has an invalid one.
 */
export function readSubmission (
  request: FastifyRequest, rules: Rules, idempotencyKey: string | undefined
): Submission | ApiError {
  const { tenant, mode } = callerOf(request)
  if (idempotencyKey === undefined) {
    return { code: 'invalid_idempotency_key', param: 'Idempotency-Key' }
  }
  const read = readJobRequest(request.body as CreateJobBody, { ...rules, mode })
  if (read.kind === 'fault') return read.fault
  const refusal = sandboxRefusal(read.request, { mode, prices: rules.prices })
  if (refusal !== undefined) return refusal
  const fingerprint = fingerprintOf(read.request, rules.fingerprintKey)
  return { ...read.request, tenant, idempotencyKey, fingerprint }
}

/** The same of a request for a job, with the key it may be sent again with. */
export function readKeyedSubmission (request: FastifyRequest, rules: Rules): Submission | ApiError {
  return readSubmission(request, rules, readIdempotencyKey(request.headers['idempotency-key']))
}
