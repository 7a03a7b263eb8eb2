import type { FastifyRequest } from 'fastify'
import type { CreateJobBody } from '../../schemas/api/create-job.ts'
import type { Submission } from '../jobs/send.ts'
import type { ApiError } from './errors.ts'
import { fingerprintOf, readIdempotencyKey, readJobRequest, sandboxRefusal } from './request.ts'
import { callerOf } from './guard.ts'
import type { Settings } from './config.ts'

/**
 * The submission of a request for a job or a quote, or its error; a test key may request an error
 * by a sandbox input. The idempotency key is undefined if it is invalid.
 */
export function readSubmission (
  request: FastifyRequest, settings: Settings, idempotencyKey: string | undefined
): Submission | ApiError {
  const { tenant, mode, keyId } = callerOf(request)
  if (idempotencyKey === undefined) {
    return { code: 'invalid_idempotency_key', param: 'Idempotency-Key' }
  }
  const read = readJobRequest(request.body as CreateJobBody, { ...settings, mode })
  if (read.kind === 'fault') return read.fault
  const refusal = sandboxRefusal(read.request, { mode, prices: settings.prices })
  if (refusal !== undefined) return refusal
  const fingerprint = fingerprintOf(read.request, settings.fingerprintKey)
  return { ...read.request, tenant, idempotencyKey, fingerprint, apiKey: keyId }
}

/** The same for a job: with an Idempotency-Key, and the lines of a file. */
export function readKeyedSubmission (
  request: FastifyRequest, settings: Settings
): Submission | ApiError {
  const key = readIdempotencyKey(request.headers['idempotency-key'])
  const read = readSubmission(request, settings, key)
  const { file } = request
  if ('code' in read || file === undefined) return read
  return { ...read, columns: file.columns, references: file.lines }
}
