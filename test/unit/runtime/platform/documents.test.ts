import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { createDocument, sendDocument } from '../../../../services/runtime/platform/documents.ts'

const TEXT = 'A text. '.repeat(1_000)

async function createApp () {
  const document = await createDocument('text/plain; charset=utf-8', TEXT)
  const app = Fastify()
  app.get('/', async (request, reply) =>
    sendDocument(request, reply, { document, cacheControl: 'public, no-cache' }))
  const ask = async (headers: Record<string, string>, method: 'GET' | 'HEAD' = 'GET') =>
    await app.inject({ method, url: '/', headers })
  return { ask, document }
}

describe('a constant document', () => {
  it.each([
    [undefined, undefined], ['identity', undefined], ['gzip, br', 'br'], ['gzip', 'gzip'],
    ['*', 'gzip'], ['br;q=0.5, gzip', 'gzip'], ['br;q=0, gzip;q=0', undefined],
  ])('for a client that accepts %s is sent as %s', async (accepted, coding) => {
    const { ask } = await createApp()
    const { headers, rawPayload } = await ask(accepted ? { 'accept-encoding': accepted } : {})
    expect(headers).toMatchObject({
      vary: 'Accept-Encoding',
      'cache-control': 'public, no-cache',
      'content-length': String(rawPayload.length),
      'content-type': 'text/plain; charset=utf-8',
    })
    expect(headers['content-encoding']).toBe(coding)
    const decode = { br: brotliDecompressSync, gzip: gunzipSync }[coding ?? ''] ?? String
    expect(String(decode(rawPayload as never))).toBe(TEXT)
  })

  it('is not sent again to a client that has it', async () => {
    const { ask } = await createApp()
    const codings = ['identity', 'gzip', 'br']
    const tags = await Promise.all(codings.map(async accepted =>
      String((await ask({ 'accept-encoding': accepted })).headers.etag)))
    expect(new Set(tags).size).toBe(3)
    for (const [at, tag] of tags.entries()) {
      const headers = { 'accept-encoding': codings[at] ?? '', 'if-none-match': `"x", ${tag}` }
      const answer = await ask(headers)
      expect([answer.statusCode, answer.body, answer.headers.etag]).toEqual([304, '', tag])
    }
  })

  it('has the headers of its answer without the bytes for HEAD', async () => {
    const { ask, document } = await createApp()
    const answer = await ask({ 'accept-encoding': 'br' }, 'HEAD')
    expect([answer.statusCode, answer.body, answer.headers['content-length']])
      .toEqual([200, '', String(document.coded.br.bytes.length)])
  })
})
