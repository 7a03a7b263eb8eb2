import { ERRORS, errorBody, type ErrorCode } from '../errors.ts'
import {
  mapOperations, mapValues, type Content, type OpenApiDocument, type OpenApiResponse,
  type Operation,
} from './document.ts'
import {
  ANSWER_EXAMPLES, EVENT_EXAMPLE, FAULT_EXAMPLES, PARAMETER_EXAMPLES, REQUEST_EXAMPLES,
} from './examples.ts'

const REQUEST_ID = 'req_01jd3v8zj7m5n2k4q6r8s0t1w3'

/** Adds examples of all bodies, responses and errors; examples of errors are shared. */
export function withExamples (document: OpenApiDocument): OpenApiDocument {
  const { paths, webhooks = {}, components } = document
  return {
    ...document,
    paths: mapOperations(paths, withOwnExamples),
    webhooks: mapOperations(webhooks, withEventExample),
    components: { ...components, examples: faultExamples() },
  }
}

function withOwnExamples (operation: Operation): Operation {
  const { operationId: id = '', parameters, requestBody, responses } = operation
  const bodies = REQUEST_EXAMPLES[id]
  return {
    ...operation,
    ...(parameters === undefined ? {} : { parameters: parameters.map(withValue) }),
    ...(requestBody === undefined || bodies === undefined
      ? {}
      : { requestBody: { ...requestBody, content: withBodies(requestBody.content, bodies) } }),
    responses: mapValues(responses, (answer, status) => withAnswer(answer, `${id} ${status}`)),
  }
}

function withValue<P extends { readonly name: string }> (parameter: P): P {
  const example = PARAMETER_EXAMPLES[parameter.name]
  return example === undefined ? parameter : { ...parameter, example }
}

function withBodies (content: Content, bodies: Readonly<Record<string, unknown>>): Content {
  return mapValues(content, media =>
    ({ ...media, examples: mapValues(bodies, value => ({ value })) }))
}

function withAnswer (answer: OpenApiResponse, name: string): OpenApiResponse {
  if (answer.content === undefined) return answer
  const content = mapValues(answer.content, (media, type) => {
    const example = ANSWER_EXAMPLES[`${name} ${type}`]
    if (example !== undefined) return { ...media, example }
    const codes = codesOf(media.schema)
    return codes.length === 0 ? media : { ...media, examples: Object.fromEntries(codes.map(refOf)) }
  })
  return { ...answer, content }
}

const refOf = (code: string) => [code, { $ref: `#/components/examples/${code}` }] as const

type FaultProperties = { readonly code?: { readonly enum?: readonly string[] } }
type FaultSchema = {
  readonly properties?: { readonly error?: { readonly properties?: FaultProperties } }
}

/** The codes in the schema of an error; empty for other schemas. */
function codesOf (schema: FaultSchema): readonly string[] {
  return schema.properties?.error?.properties?.code?.enum ?? []
}

function faultExamples (): Record<string, object> {
  const codes = Object.keys(ERRORS) as ErrorCode[]
  return Object.fromEntries(codes.map(code =>
    [code, { value: errorBody({ code, ...FAULT_EXAMPLES[code] }, REQUEST_ID) }]))
}

function withEventExample (operation: Operation): Operation {
  const { operationId = '', requestBody } = operation
  if (requestBody === undefined) return operation
  const type = operationId.replace('event.', '')
  const status = type.replace('job.', '')
  const example = { ...EVENT_EXAMPLE, type, data: { ...EVENT_EXAMPLE.data, status } }
  const content = mapValues(requestBody.content, media => ({ ...media, example }))
  return { ...operation, requestBody: { ...requestBody, content } }
}
