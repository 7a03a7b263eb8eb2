import type { FastifySchemaValidationError } from 'fastify/types/schema.js'
import type { ErrorCode, Fault } from './errors.ts'

/** A field's name is shown up to here; a client can send one of megabytes. */
export const SHOWN_CHARACTERS = 100

/** Where a field has a code of its own for breaking this keyword of its schema. */
const CODES: Readonly<Record<string, ErrorCode>> = {
  'inputs maxItems': 'too_many_inputs',
  'webhook_url maxLength': 'invalid_webhook_url',
}

/** The answer to a request that does not fit its schema; only the first mismatch is reported. */
export function validationFault (errors: readonly FastifySchemaValidationError[]): Fault {
  const error = errors[0]
  if (error === undefined) return { code: 'invalid_request' }
  const param = paramOf(error)
  const code = CODES[`${param} ${error.keyword}`] ?? 'invalid_request'
  const shown = param === '' ? {} : { param }
  // The table's message for a code of its own says more than the schema's.
  if (code === 'too_many_inputs') return { code, ...shown }
  return { code, ...shown, message: `${param === '' ? 'The body' : param} ${textOf(error)}.` }
}

function textOf (error: FastifySchemaValidationError): string {
  if (error.keyword === 'additionalProperties') return 'is not a field of this request'
  if (error.keyword === 'required') return 'is missing'
  if ('propertyName' in error) return 'has a key of more than 40 characters'
  return error.message ?? 'is not valid'
}

/** `/inputs/3` is shown as `inputs[3]`, `/metadata/team` as `metadata.team`. */
function paramOf (error: FastifySchemaValidationError): string {
  const { additionalProperty, missingProperty } = error.params as Record<string, string | undefined>
  const own = additionalProperty ?? missingProperty
  const steps = error.instancePath.split('/').slice(1).map(step =>
    step.replaceAll('~1', '/').replaceAll('~0', '~'))
  if (own !== undefined) steps.push(own)
  const path = steps.reduce((before, step) =>
    before === '' ? step : /^\d+$/.test(step) ? `${before}[${step}]` : `${before}.${step}`, '')
  return path.slice(0, SHOWN_CHARACTERS)
}
