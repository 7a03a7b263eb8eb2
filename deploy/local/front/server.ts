import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { randomUUID } from 'node:crypto'
import { isSignedIn } from '../sign-in.ts'
import { BadRequest, parseRequest } from './request.ts'
import type { Access } from '../access.ts'
import type { Counts, Engine, EngineResult } from './engine.ts'

const MAX_BODY_BYTES = 64 * 1024 * 1024

/** Statuses the server gives for its codes: what is unknown is 404, what is wrong 400, else 500. */
const statusOfCode = new Map([
  ...[46, 47, 50, 56, 60, 63, 73, 81, 115].map((code) => [code, 404] as const),
  ...[6, 26, 27, 36, 38, 41, 53, 62, 69, 72, 456, 457].map((code) => [code, 400] as const),
  [307, 413] as const,
])

const REFUSAL = 'Code: 516. DB::Exception: Authentication failed: password is incorrect, or ' +
  'there is no user with such name. (AUTHENTICATION_FAILED)'

/**
 * Serves the engine the way a ClickHouse server answers over HTTP: to everybody, or over TLS and to
 * the user of `access` alone.
 */
export function createFront (engine: Engine, access?: Access): Server {
  const listener: RequestListener = (request, response) => {
    const url = new URL(request.url ?? '/', 'http://front')
    response.setHeader('X-ClickHouse-Server-Display-Name', 'embedded')
    if (url.pathname === '/ping') return response.end('Ok.\n')
    if (url.pathname !== '/') return response.writeHead(404).end('There is no handle here\n')
    if (request.method === 'GET' && !url.searchParams.has('query')) return response.end('Ok.\n')
    if (access !== undefined && !isSignedIn(request, access.accounts.clickhouse)) {
      return response.writeHead(403, { 'X-ClickHouse-Exception-Code': '516' }).end(REFUSAL)
    }
    answer(engine, { request, response, url }).catch((error) => fail(response, error))
  }
  const server = access === undefined
    ? createServer(listener)
    : createSecureServer(access.certificate, listener)
  server.keepAliveTimeout = 10_000
  return server
}

type Exchange = { request: IncomingMessage, response: ServerResponse, url: URL }

async function answer (engine: Engine, { request, response, url }: Exchange): Promise<void> {
  response.setHeader('X-ClickHouse-Query-Id', url.searchParams.get('query_id') ?? randomUUID())
  const body = await readBody(request)
  const form = await readForm(request, body)
  const result = form
    ? await engine.run(parseRequest([...url.searchParams, ...form], Buffer.alloc(0)))
    : await engine.run(parseRequest(url.searchParams, body))
  await send(response, result)
}

async function readBody (request: IncomingMessage): Promise<Buffer> {
  const { 'content-encoding': encoding } = request.headers
  if (encoding !== undefined) {
    throw new BadRequest(48, 'NOT_IMPLEMENTED', `Content-Encoding ${encoding} is not supported`)
  }
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) {
      throw new BadRequest(307, 'TOO_MANY_BYTES', `Body is over ${MAX_BODY_BYTES} bytes`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The client moves query and parameters into a form when they are too long for a URL. */
async function readForm (
  request: IncomingMessage, body: Buffer
): Promise<[string, string][] | undefined> {
  const type = request.headers['content-type'] ?? ''
  if (!type.startsWith('multipart/form-data')) return undefined
  const headers = { 'content-type': type }
  const form = await new Response(new Uint8Array(body), { headers }).formData()
  return [...form].map(([name, value]) => [name, String(value)])
}

async function send (response: ServerResponse, result: EngineResult): Promise<void> {
  response.setHeader('Content-Type', 'text/plain; charset=UTF-8')
  if (result.kind === 'pieces') {
    // The status is sent only when the first piece is there, so that most errors get theirs.
    const first = await result.pieces.next()
    const source = Readable.from(startingWith(first, result.pieces), { objectMode: false })
    return await pipeline(source, response)
  }
  response.setHeader('X-ClickHouse-Summary', formatSummary(result.counts))
  response.end(result.bytes)
}

async function * startingWith (
  first: IteratorResult<Uint8Array>, rest: AsyncGenerator<Uint8Array>
): AsyncGenerator<Uint8Array> {
  try {
    if (first.done) return
    yield first.value
    yield * rest
  } finally {
    await rest.return(undefined)
  }
}

function formatSummary (counts: Counts): string {
  const rows = String(counts.rows)
  const bytes = String(counts.bytes)
  return JSON.stringify({
    read_rows: rows,
    read_bytes: bytes,
    written_rows: rows,
    written_bytes: bytes,
    result_rows: rows,
    result_bytes: bytes,
    elapsed_ns: String(Math.round(counts.elapsedMs * 1_000_000)),
  })
}

/** An error before the first byte is answered; after it, the connection is broken. */
function fail (response: ServerResponse, error: Error): void {
  if (response.headersSent) {
    response.destroy()
    return
  }
  const message = error.message.replace(/^Query failed: /, '')
  const code = Number(/Code: (\d+)/.exec(message)?.[1] ?? 1002)
  response.writeHead(statusOfCode.get(code) ?? 500, {
    'X-ClickHouse-Exception-Code': String(code),
    'Content-Type': 'text/plain; charset=UTF-8',
  })
  response.end(message.startsWith('Code:')
    ? message
    : `Code: ${code}. DB::Exception: ${message}. (UNKNOWN_EXCEPTION)`)
}
