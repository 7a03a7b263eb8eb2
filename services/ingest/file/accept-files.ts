import type { FastifyInstance, FastifyRequest } from 'fastify'
import { detachBuffer } from '../../platform/detach-buffer.ts'
import { yieldToEventLoop } from '../../platform/event-loop.ts'
import { SMALL_BODY_BYTES } from '../body-budget.ts'
import { ApiException } from '../errors.ts'
import { readCsv, type CsvFile } from './read-csv.ts'
import { readForm } from './read-form.ts'
import { readFileOptions, type OptionEntries } from './read-options.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the body may be a file as well. */
    readonly takesFile?: boolean
  }
  interface FastifyRequest {
    /** The file of the request; undefined for a body of JSON. */
    file: CsvFile | undefined
  }
}

/**
 * Accepts a CSV file as body of routes with `takesFile`: as `text/csv` with its options in the
 * query, or as a part of `multipart/form-data`. The parsed body is that of the equivalent JSON
 * request, so it is validated and fingerprinted as such.
 */
export function acceptFiles (app: FastifyInstance): void {
  app.decorateRequest('file', undefined)
  const options = { parseAs: 'buffer' } as const
  app.addContentTypeParser('text/csv', options, async (request: FastifyRequest, body: Buffer) => {
    requireFileRoute(request)
    return await parsed(request, body, queryOf(request))
  })
  app.addContentTypeParser('multipart/form-data', options, async (
    request: FastifyRequest, body: Buffer
  ) => {
    requireFileRoute(request)
    const { file, entries } = await readForm(body, request.headers['content-type'] ?? '')
    detachBuffer(body)
    return await parsed(request, file, [...queryOf(request), ...entries])
  })
}

function requireFileRoute (request: FastifyRequest): void {
  if (request.routeOptions.config.takesFile === true) return
  throw new ApiException({ code: 'unsupported_media_type' })
}

function queryOf ({ url }: FastifyRequest): OptionEntries {
  const [, query = ''] = url.split('?')
  return [...new URLSearchParams(query)]
}

/** The equivalent JSON body. The bytes of the file are freed. */
async function parsed (
  request: FastifyRequest, bytes: Buffer, entries: OptionEntries
): Promise<object> {
  const { csv, fields } = readFileOptions(entries)
  const isSmall = bytes.length <= SMALL_BODY_BYTES
  const pause = async () => {
    if (!isSmall) await yieldToEventLoop('bulk', request.caller?.tenant)
  }
  const file = await readCsv(bytes, csv, pause)
  detachBuffer(bytes)
  request.file = file
  return { ...fields, inputs: file.inputs }
}
