import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FilePreviewBody } from '../../schemas/api/file.ts'
import { createBodyBudget, reserveMemory } from '../../services/ingest/body.ts'
import { acceptFiles } from '../../services/ingest/file.ts'
import { createFilePreviewRoute } from '../../services/ingest/routes/file-previews.ts'
import { settings } from '../unit/ingest/doubles.ts'

type Parser = (request: FastifyRequest, body: Buffer) => Promise<object>
type Upload<Fields> = Pick<FastifyRequest, 'file' | 'previewed'> & {
  /** The fields of the equivalent JSON body. */
  readonly fields: Fields
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

type UploadOptions = {
  readonly query?: string
  readonly takesFile?: 'contacts' | 'entries' | 'preview'
  readonly growMemory?: FastifyRequest['growMemory']
}

/**
 * Parses a body as the application does for a route that takes files, `preview` unless `takesFile`
 * is another: that one leaves the bytes of the file as they are. Rejects as the parser does.
 */
export async function parseUpload<Fields = object> (
  contentType: string, body: Buffer,
  { query = '', takesFile = 'preview', growMemory = () => true }: UploadOptions = {}
): Promise<Upload<Fields>> {
  const request = {
    url: `/?${query}`,
    headers: { 'content-type': contentType },
    routeOptions: { config: { takesFile } },
    file: undefined,
    previewed: undefined,
    growMemory,
  } as unknown as FastifyRequest
  const parser = parsers.get(contentType.split(';', 1)[0] ?? '')
  // The parser frees the bytes that it gets.
  const fields = await parser!(request, Buffer.from(body))
  return { file: request.file, previewed: request.previewed, fields: fields as Fields }
}

export type FileOptions =
  Partial<Readonly<Record<'column' | 'delimiter' | 'sheet' | 'service', string>>> &
  { readonly header?: boolean }

const queryOf = (options: FileOptions): string => new URLSearchParams(
  Object.entries(options).filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, String(value)] as [string, string])
).toString()

/** The file that a job is made of, read with these options. */
export async function readFile (bytes: Buffer, options: FileOptions = {}) {
  const { file } = await parseUpload(
    'text/csv', bytes, { query: queryOf(options), takesFile: 'contacts' })
  return file!
}

const { handler } = createFilePreviewRoute(
  settings, reserveMemory(createBodyBudget(1e9), settings.bodyThroughput))

/** What the route of previews, asked by a test key, says of a file. */
export async function previewUpload (
  bytes: Buffer, options: FileOptions = {}
): Promise<FilePreviewBody> {
  const { previewed, fields: body } = await parseUpload(
    'text/csv', bytes, { query: queryOf(options) })
  const request = { previewed, body, caller: { mode: 'test' } } as unknown as FastifyRequest
  let sent: unknown
  const reply = { send: (answer: unknown) => { sent = answer } } as unknown as FastifyReply
  await (handler as (request: FastifyRequest, reply: FastifyReply) => unknown)(request, reply)
  return sent as FilePreviewBody
}
