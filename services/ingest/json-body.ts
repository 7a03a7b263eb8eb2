import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { detachBuffer } from '../runtime/platform/detach-buffer.ts'
import { yieldToEventLoop } from '../runtime/platform/event-loop.ts'
import { SMALL_BODY_BYTES } from './body-budget.ts'
import { ACCEPTED_CODINGS, bodyCodingOf } from './body-encoding.ts'
import { ApiException, type ApiError } from './errors.ts'
import { findJsonError, inspectJson, type Finding } from '../runtime/platform/json-text.ts'
import { SHOWN_CHARACTERS } from './validation.ts'
import { PassThrough, pipeline } from 'node:stream'

/**
 * Accepts `application/json` in UTF-8 as body; Fastify rejects media types without a parser once
 * its own ones are removed. Large bodies are parsed one per slot of the event loop, so that they do
 * not block others.
 */
export function acceptJson (app: FastifyInstance): void {
  // The parser of Fastify rejects __proto__ and constructor.prototype at any depth.
  const parse = app.getDefaultJsonParser('error', 'error')
  const parsed = (request: FastifyRequest, text: string) =>
    new Promise((resolve, reject) => parse(request, text, (error, value) =>
      error ? reject(parseFault(text)) : resolve(value)))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (
    request: FastifyRequest, body: Buffer
  ) => {
    // Some clients send a media type without a body.
    const isNothing = body.length === 0 && request.routeOptions.config.takesBody !== true
    if (isNothing) return undefined
    if (body.length > SMALL_BODY_BYTES) await yieldToEventLoop('bulk', request.caller?.tenant)
    return await parsed(request, textOf(body))
  })
}

const FORBIDDEN_NAME: ApiError = {
  code: 'invalid_request',
  message: 'A field has the name __proto__ or constructor. Leave it out.',
}

/** Why a text was rejected: valid JSON has a forbidden field name. */
function parseFault (text: string): ApiException {
  const position = findJsonError(text)
  if (position === undefined) return new ApiException(FORBIDDEN_NAME)
  return new ApiException({
    code: 'invalid_json',
    message: `The body is not valid JSON at line ${position.line}, column ${position.column}. ` +
      'Send one JSON object.',
  })
}

/** Whether the headers of a request exclude its body before it is read. */
export function bodyHeaderError (request: FastifyRequest): ApiException | undefined {
  const { 'content-encoding': encoding, 'content-type': type } = request.headers
  if (bodyCodingOf(encoding) === undefined) {
    const headers = { 'accept-encoding': ACCEPTED_CODINGS }
    return new ApiException({
      code: 'unsupported_media_type', message: UNSUPPORTED_CODING, headers,
    })
  }
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(type ?? '')?.[1]
  const foreign = charset !== undefined && !/^utf-?8$/i.test(charset)
  const isTaken = type !== undefined && !foreign
  return isTaken ? undefined : new ApiException({ code: 'unsupported_media_type' })
}

const UNSUPPORTED_CODING =
  `This Content-Encoding is not supported. Use one of: ${ACCEPTED_CODINGS}.`

/**
 * The text of a body, whose buffer is freed.
 * @throws ApiException if it is not UTF-8, or ambiguous for parsers.
 */
function textOf (body: Buffer): string {
  if (!isUtf8(body)) throw new ApiException({ code: 'invalid_encoding' })
  const text = body.toString('utf8')
  detachBuffer(body)
  const fault = faultOf(inspectJson(text))
  if (fault !== undefined) throw new ApiException(fault)
  return text
}

/** The error for a violation of the limits of JSON texts. */
function faultOf (finding: Finding): ApiError | undefined {
  const code = 'invalid_request'
  switch (finding.kind) {
    case 'fine': return undefined
    case 'deep': return nestingFault(finding.path)
    case 'many items': return { code: 'too_many_inputs', param: 'inputs' }
    case 'many keys': return {
      code, message: `An object has more than ${finding.limit} fields. Send fewer.`,
    }
    case 'duplicate': return {
      code, param: shown(finding.key), message: 'The field appears twice. Send it once.',
    }
    case 'long key': return {
      code,
      param: shown(finding.key),
      message: `The name of the field has more than ${finding.limit} characters. Shorten it.`,
    }
  }
}

function nestingFault (path: string): ApiError {
  const code = 'invalid_request'
  if (/(?:^|\.)(?:__proto__|constructor)(?:\.|$)/.test(path)) return FORBIDDEN_NAME
  // A list that is the body itself has no name.
  if (path === '' || path.startsWith('[')) {
    return { code, message: 'The body is nested too deeply.' }
  }
  const param = shown(path)
  return { code, param, message: `${param} must be a plain value, not a list or an object.` }
}

const shown = (key: string) => key.slice(0, SHOWN_CHARACTERS)

/**
 * Processes a request once its last byte is received, even if the client has disconnected. Node
 * drops the buffered body when a connection is reset, so a body is read from the start, up to the
 * size that needs no reservation, and not only after the key is checked. A client that half-closes
 * its connection after the request gets its response.
 */
export function acceptCompleteBodies (app: FastifyInstance): void {
  allowHalfOpen(app.server)
  const bodies = new WeakMap<FastifyRequest, PassThrough>()
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'POST' || request.method === 'PATCH') {
      const body = new PassThrough({ highWaterMark: SMALL_BODY_BYTES })
      bodies.set(request, body)
      // A truncated body is destroyed, which its reader sees.
      pipeline(request.raw, body, () => {})
      // Drains the rest of a rejected request, so that it is not parsed as the next one.
      reply.raw.once('finish', () => body.resume())
    }
    done()
  })
  app.addHook('preParsing', (...[request, , payload, done]) => {
    const body = bodies.get(request) ?? payload
    if (body.destroyed) done(new ApiException({ code: 'request_timeout' }))
    else done(null, body)
  })
}

/** Lets a server respond on a connection that the client has half-closed. */
export function allowHalfOpen (server: object): void {
  Object.assign(server, { httpAllowHalfOpen: true })
}
