import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import type { Settings } from '../../../../services/ingest/config.ts'
import { application } from '../doubles.ts'

const SERVICE = 'service=phone-validation'
const BOUNDARY = 'XXboundaryXX'

type Sent = {
  readonly query?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly path?: string
}

/** Sends bodies of files to an application of doubles. */
export function fileSender (more: Partial<IngestDeps> = {}, settings: Partial<Settings> = {}) {
  const { app, calls, post } = application(more, settings)
  const send = (
    type: string, body: string | Buffer, { query, headers, path = 'jobs' }: Sent = {}
  ) => post(body, {
    path: `${path}${query === undefined ? '' : `?${query}`}`,
    headers: { 'content-type': type, ...headers },
  })
  return {
    app,
    calls,
    csv: (body: string | Buffer, query = '', more: Sent = {}) =>
      send('text/csv', body, { ...more, query: [SERVICE, query].filter(Boolean).join('&') }),
    send,
    form: (parts: readonly string[], more: Sent = {}) =>
      send(`multipart/form-data; boundary=${BOUNDARY}`, formOf(parts), more),
  }
}

/** A part with a field. */
export const field = (name: string, value: string) =>
  `Content-Disposition: form-data; name="${name}"\r\n\r\n${value}`

/** A part with a file. */
export const filePart = (content: string, name = 'file') =>
  `Content-Disposition: form-data; name="${name}"; filename="a.csv"\r\nContent-Type: text/csv` +
  `\r\n\r\n${content}`

/** A body of multipart/form-data. */
export const formOf = (parts: readonly string[]) =>
  `${parts.map(part => `--${BOUNDARY}\r\n${part}\r\n`).join('')}--${BOUNDARY}--\r\n`

export const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`

type Answer = { readonly statusCode: number, json: () => { error: Record<string, string> } }

/** Status, code and field of an error. */
export function errorOf (answer: Answer): readonly unknown[] {
  const { code, param } = answer.json().error
  return [answer.statusCode, code, param]
}
