import type { FastifySchemaValidationError } from 'fastify/types/schema.js'
import { describe, expect, it } from 'vitest'
import { validationFault } from '../../../services/ingest/validation.ts'

const errorAt = (
  instancePath: string, keyword: string, params: Record<string, string> = {}
): FastifySchemaValidationError =>
  ({ instancePath, keyword, params, schemaPath: '', message: 'must be so' })

describe('the answer to a mismatch', () => {
  it.each([
    [errorAt('', 'type'), { code: 'invalid_request', message: 'The body must be so.' }],
    [errorAt('/inputs/3', 'maxLength'), {
      code: 'invalid_request', param: 'inputs[3]', message: 'inputs[3] must be so.',
    }],
    [errorAt('/metadata/a~1b~0c', 'type'), {
      code: 'invalid_request', param: 'metadata.a/b~c', message: 'metadata.a/b~c must be so.',
    }],
    [errorAt('', 'required', { missingProperty: 'service' }), {
      code: 'invalid_request', param: 'service', message: 'service is missing.',
    }],
    [errorAt('', 'additionalProperties', { additionalProperty: 'fast' }), {
      code: 'invalid_request', param: 'fast', message: 'fast is not a field of this request.',
    }],
    [errorAt('/inputs', 'maxItems'), { code: 'too_many_inputs', param: 'inputs' }],
    [errorAt('/webhook_url', 'maxLength'), {
      code: 'invalid_webhook_url', param: 'webhook_url', message: 'webhook_url must be so.',
    }],
  ])('%j', (error, fault) => {
    expect(validationFault([error])).toEqual(fault)
  })

  it('names the limit of a label\'s name', () => {
    const error = { ...errorAt('/metadata', 'maxLength'), propertyName: 'k'.repeat(41) }
    expect(validationFault([error]).message).toBe('metadata has a key of more than 40 characters.')
  })

  it('reports the first mismatch alone, and none as a request that is not valid', () => {
    const errors = [errorAt('/a', 'type'), errorAt('/b', 'type')]
    expect(validationFault(errors).param).toBe('a')
    expect(validationFault([])).toEqual({ code: 'invalid_request' })
  })
})
