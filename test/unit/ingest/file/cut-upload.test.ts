import { once } from 'node:events'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import { expect, it } from 'vitest'
import { listen, talk } from '../doubles.ts'
import { field, filePart, fileSender, formOf, FORM_TYPE } from './support.ts'

const parts = [filePart('name,phone\nAnn,+12127365000\n'), field('service', 'phone-validation'),
  field('column', 'phone')]
const CSV = 'name,phone\nAnn,+12127365000\n'
const QUERY = '?service=phone-validation&column=phone'

const head = (path: string, type: string, more: string) => [
  `POST /api/v1/jobs${path} HTTP/1.1`, 'host: x', 'authorization: Bearer live',
  `content-type: ${type}`, more, '', '',
].join('\r\n')

/** Sends a request without its last bytes and goes away; resolves when the service noticed. */
async function cut (port: number, bytes: Buffer, server: FastifyInstance['server']) {
  const accepted = once(server, 'connection')
  const { socket } = talk(port)
  const [other] = await accepted as [NodeJS.EventEmitter]
  const gone = once(other, 'close')
  socket.end(bytes)
  await gone
}

const GZIP = 'content-encoding: gzip\r\n'
const CASES = [
  { what: 'a form', body: Buffer.from(formOf(parts)), path: '', type: FORM_TYPE, coding: '' },
  { what: 'gzip', body: gzipSync(formOf(parts)), path: '', type: FORM_TYPE, coding: GZIP },
  { what: 'CSV', body: Buffer.from(CSV), path: QUERY, type: 'text/csv', coding: '' },
  { what: 'compressed CSV', body: gzipSync(CSV), path: QUERY, type: 'text/csv', coding: GZIP },
]

it.each(CASES)('an upload that is cut anywhere submits nothing: $what', async upload => {
  const { body, path, type, coding } = upload
  const { app, calls } = fileSender()
  const port = await listen(app)
  const stated = head(path, type, `${coding}content-length: ${body.length}`)
  for (let length = 0; length < body.length; length += 1 + Math.floor(body.length / 40)) {
    await cut(port, Buffer.concat([Buffer.from(stated), body.subarray(0, length)]), app.server)
  }
  const chunked = Buffer.from(head(path, type, `${coding}transfer-encoding: chunked`))
  const chunk = Buffer.concat([
    Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')])
  await cut(port, Buffer.concat([chunked, chunk]), app.server)
  expect(calls.submissions).toEqual([])
  const last = stated.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n')
  await cut(port, Buffer.concat([Buffer.from(last), body]), app.server)
  expect(calls.submissions).toHaveLength(1)
})
