import { once } from 'node:events'
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'

/*
 * A customer as an outsider writes one: it knows the interface text and the public documents, and
 * uses Node alone. It shares no schema, no client and no parser with the service.
 */

type Access = { readonly baseUrl: string, readonly key: string }

type Sent = {
  /** GET without a body, or else POST. */
  readonly method?: string
  /** Sent as JSON, unless it is a text. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** The address of this machine that the request comes from. */
  readonly from?: string
}

export type Row = Readonly<Record<string, string>>

const ENDED = ['completed', 'cancelled', 'failed']
const POLL_MS = 20

export type Customer = ReturnType<typeof customerOf>

/** The customer that owns a key. `path` is relative to the base address, or `//` and absolute. */
export function customerOf (access: Access) {
  const ask = (path: string, sent: Sent = {}) => exchange(access, path, sent)
  const post = (path: string, body: unknown) => ask(path, { body })

  /** Polls the job to its end and shows every state on the way; resolves with the last. */
  async function ended (id: string, onState: (job: Job) => unknown = () => {}): Promise<Job> {
    for (;;) {
      const { body: job } = await ask(`/jobs/${id}`)
      await onState(job)
      if (ENDED.includes(job.status)) return job
      await delay(POLL_MS)
    }
  }

  const rows = async (id: string) => rowsOf((await ask(`/jobs/${id}/results`)).text)

  return {
    ask,
    post,
    ended,
    rows,
    /** Creates a job that has to be accepted, and waits for its end and its rows. */
    run: async (wanted: object) => {
      const { status, body, text } = await post('/jobs', wanted)
      if (status !== 202) throw new Error(`the job was answered with ${status}: ${text}`)
      return { created: body, job: await ended(body.id), rows: await rows(body.id) }
    },
    /** Sends a job and resolves when its last byte is sent; the connection is the caller's. */
    sendOnly: async (body: string) => {
      const { hostname, port, pathname } = new URL(access.baseUrl)
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      const lines = [
        `POST ${pathname}/jobs HTTP/1.1`, 'host: x', 'connection: close',
        `authorization: Bearer ${access.key}`, 'content-type: application/json',
        `content-length: ${Buffer.byteLength(body)}`, '', body,
      ]
      await new Promise<void>(resolve => { socket.write(lines.join('\r\n'), () => resolve()) })
      return socket
    },
  }
}

/** The status resource as it came. */
type Job = Awaited<ReturnType<typeof exchange>>['body']

async function exchange ({ baseUrl, key }: Access, path: string, sent: Sent) {
  const { body, from, method = body === undefined ? 'GET' : 'POST' } = sent
  const url = new URL(path.startsWith('//') ? path.slice(1) : `${new URL(baseUrl).pathname}${path}`,
    baseUrl)
  const outgoing = request(url, {
    method,
    agent: false,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...sent.headers,
    },
    ...(from === undefined ? {} : { localAddress: from }),
  })
  outgoing.end(typeof body === 'string' || body === undefined ? body : JSON.stringify(body))
  const [incoming] = await once(outgoing, 'response') as [IncomingMessage]
  return answerOf(incoming.statusCode ?? 0, incoming.headers, await text(incoming))
}

function answerOf (status: number, headers: IncomingHttpHeaders, content: string) {
  const isJson = headers['content-type']?.startsWith('application/json') === true
  const body = isJson ? JSON.parse(content) : undefined
  return { status, headers, text: content, body, code: body?.error?.code as string | undefined }
}

/** Reads CSV as RFC 4180 says: a header line, CRLF, quotes doubled in quoted cells. */
function rowsOf (csv: string): readonly Row[] {
  const lines: string[][] = [[]]
  for (const [, cell = '', end] of csv.matchAll(/("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n|$)/g)) {
    lines.at(-1)?.push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell)
    if (end === '\r\n') lines.push([])
  }
  const [header = [], ...rows] = lines.slice(0, -1)
  return rows.map(cells => Object.fromEntries(header.map((name, at) => [name, cells[at] ?? ''])))
}
