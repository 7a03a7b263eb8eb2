import type { FastifyInstance, FastifyRequest } from 'fastify'
import { acceptFiles } from '../../services/ingest/file/read-form.ts'

type Parser = (request: FastifyRequest, body: Buffer) => Promise<object>
type Upload = Pick<FastifyRequest, 'file' | 'previewed'> & {
  /** The fields of the equivalent JSON body. */
  readonly fields: object
}

/** The parsers that `acceptFiles` gives to an application, by the type of the body. */
function uploadParsers (): ReadonlyMap<string, Parser> {
  const parsers = new Map<string, Parser>()
  acceptFiles({
    decorateRequest: () => {},
    addHook: () => {},
    addContentTypeParser: (types: string | readonly string[], _options: object, parser: Parser) => {
      for (const type of [types].flat()) parsers.set(type as string, parser)
    },
  } as unknown as FastifyInstance)
  return parsers
}

const parsers = uploadParsers()

/**
 * Parses a body as the application does for a route that takes files, `preview` unless `takesFile`
 * is another: that one leaves the bytes of the file as they are. Rejects as the parser does.
 */
export async function parseUpload (
  contentType: string, body: Buffer,
  { query = '', takesFile = 'preview' }: {
    readonly query?: string, readonly takesFile?: 'contacts' | 'entries' | 'preview',
  } = {}
): Promise<Upload> {
  const request = {
    url: `/?${query}`,
    headers: { 'content-type': contentType },
    routeOptions: { config: { takesFile } },
    file: undefined,
    previewed: undefined,
    growMemory: () => true,
  } as unknown as FastifyRequest
  const parser = parsers.get(contentType.split(';', 1)[0] ?? '')
  // The parser frees the bytes that it gets.
  const fields = await parser!(request, Buffer.from(body))
  return { file: request.file, previewed: request.previewed, fields }
}
