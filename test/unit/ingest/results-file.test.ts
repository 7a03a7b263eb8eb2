import { once } from 'node:events'
import type { Readable } from 'node:stream'
import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import {
  type ResultSelection, selectionOf, sendResults,
} from '../../../services/ingest/results-response.ts'
import type { ManifestEntry } from '../../../services/jobs/job.ts'
import type { IngestDeps } from '../../../services/ingest/ports.ts'
import { closedJob, doubles, MANIFEST } from './doubles.ts'

type Exchange = Parameters<typeof sendResults>[2]

const job = closedJob()
const selection = selectionOf({}, job.service, 'csv') as ResultSelection
const [first] = MANIFEST as readonly [ManifestEntry]
const second: ManifestEntry = { ...first, chunk: 1, digest: 'cd'.repeat(32) }

/** Requests the results that this manifest names. */
async function ask (
  manifest: readonly ManifestEntry[], headers: Record<string, string> = {},
  more: Partial<IngestDeps> = {}
) {
  const app = Fastify()
  app.get('/', (request, reply) =>
    sendResults(doubles(more), { job, manifest },
      { request, reply, form: 'csv', safe: false, selection }))
  return app.inject({ url: '/', headers })
}

describe('the tag of a result file', () => {
  it('is made of its blocks, in whatever order they are named', async () => {
    const tags = await Promise.all([[first, second], [second, first], [first]]
      .map(async manifest => (await ask(manifest)).headers.etag))
    expect(tags[0]).toBe(tags[1])
    expect(tags[0]).not.toBe(tags[2])
  })

  it('changes with the rows that a block has won', async () => {
    const { headers } = await ask([{ ...first, won: Buffer.of(0xff, 0x01) }])
    expect(headers.etag).not.toBe((await ask(MANIFEST)).headers.etag)
  })

  it.each([
    ['*', 304], ['"other"', 200], ['', 200],
  ])('is compared with If-None-Match: %s', async (tag, status) => {
    expect((await ask(MANIFEST, { 'if-none-match': tag })).statusCode).toBe(status)
  })

  it('matches as a weak one too, and then nothing is read', async () => {
    const { etag } = (await ask(MANIFEST)).headers
    const csvStream = () => { throw new Error('read') }
    const again = await ask(MANIFEST, { 'if-none-match': `W/${etag}` }, { csvStream })
    expect([again.statusCode, again.body]).toEqual([304, ''])
    expect(again.headers['cache-control']).toBe('private, no-cache')
  })
})

describe('the stream of a result file', () => {
  it('is closed at the store when the client goes away', async () => {
    const closed = Promise.withResolvers<string>()
    const csvStream = async function * () {
      try {
        for (let row = 1; ; row++) yield `${row}\r\n`
      } finally {
        closed.resolve('closed')
      }
    }
    const sent: Readable[] = []
    const reply = { headers: () => {}, send: (stream: Readable) => { sent.push(stream) } }
    const request = { query: {}, headers: {} }
    await sendResults(doubles({ csvStream }), { job, manifest: MANIFEST },
      { request, reply, form: 'csv', safe: false, selection } as unknown as Exchange)
    const [stream] = sent as [Readable]
    expect(String(await once(stream, 'data'))).toBe('1\r\n')
    stream.destroy()
    expect(await closed.promise).toBe('closed')
  })
})
