import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { FaultError } from './errors.ts'
import { inspectJson } from './json-text.ts'
import { SHOWN_CHARACTERS } from './validation.ts'

/**
 * Makes `application/json` in UTF-8 the only body the application takes. Other media types are
 * refused by the framework, once its own parsers are gone.
 */
export function acceptOnlyJson (app: FastifyInstance): void {
  // The framework's parser refuses __proto__ and constructor.prototype at any depth.
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    // Some clients name a media type even where they send nothing.
    const isNothing = body.length === 0 && request.routeOptions.config.takesBody !== true
    if (isNothing) return done(null, undefined)
    const text = textOf(body as Buffer)
    if (text instanceof FaultError) return done(text)
    return parse(request, text, (error, value) =>
      error ? done(parseFault(text)) : done(null, value))
  })
}

/** Why a text was not taken: if it is JSON all the same, a field has a name that nobody may use. */
function parseFault (text: string): FaultError {
  try {
    JSON.parse(text)
  } catch {
    return new FaultError({ code: 'invalid_json' })
  }
  return new FaultError({
    code: 'invalid_request',
    message: 'A field has the name __proto__ or constructor. Leave it out.',
  })
}

/** Whether a request's own headers exclude its body before a byte of it is read. */
export function bodyHeaderFault (request: FastifyRequest): FaultError | undefined {
  const { 'content-encoding': encoding, 'content-type': type } = request.headers
  const encoded = encoding !== undefined && encoding.trim().toLowerCase() !== 'identity'
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(type ?? '')?.[1]
  const foreign = charset !== undefined && !/^utf-?8$/i.test(charset)
  const isTaken = type !== undefined && !encoded && !foreign
  return isTaken ? undefined : new FaultError({ code: 'unsupported_media_type' })
}

function textOf (body: Buffer): string | FaultError {
  if (!isUtf8(body)) return new FaultError({ code: 'invalid_encoding' })
  const text = body.toString('utf8')
  const finding = inspectJson(text)
  switch (finding.kind) {
    case 'fine': return text
    case 'duplicate': return new FaultError({
      code: 'invalid_request',
      param: finding.key.slice(0, SHOWN_CHARACTERS),
      message: 'The field appears twice. Send it once.',
    })
    case 'deep': return new FaultError({
      code: 'invalid_request', message: 'The body is nested too deeply.',
    })
  }
}
