import { once } from 'node:events'
import { Readable } from 'node:stream'
import { constants, gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { bodyCodingOf, decodedBody } from '../../../services/ingest/body-encoding.ts'
import { application, good } from './doubles.ts'
import { errorOf } from './file/support.ts'

const text = JSON.stringify(good)
const MIB = 1_024 * 1_024
const INVALID = [400, 'invalid_encoding', 'Content-Encoding']
const NEITHER = [400, 'invalid_encoding', undefined]

function sender (bodyBudgetBytes = 1e9) {
  const { post, calls } = application({}, { bodyBudgetBytes })
  const send = (body: Buffer, coding: string, more: Record<string, string> = {}) =>
    post(body, { headers: { 'content-encoding': coding, ...more } })
  return { send, calls }
}

describe.each([
  ['gzip', gzipSync], ['zstd', (bytes: Buffer | string) => zstdCompressSync(bytes)],
] as const)('a body with the coding %s', (coding, pack) => {
  it('is decompressed', async () => {
    const { send, calls } = sender()
    expect((await send(pack(text), ` ${coding.toUpperCase()} `)).statusCode).toBe(202)
    expect(calls.submissions).toMatchObject([good])
  })

  it('of several megabytes is decompressed', async () => {
    const inputs = Array.from({ length: 100_000 }, (_, row) => `+1212${row}`)
    const { send, calls } = sender()
    const answer = await send(pack(JSON.stringify({ ...good, inputs })), coding)
    expect([answer.statusCode, calls.submissions[0]?.inputs]).toEqual([202, inputs])
  })

  it('is rejected at the limit of decompressed bytes', async () => {
    const bomb = pack(Buffer.alloc(200 * MIB, ' '))
    expect(bomb.length).toBeLessThan(MIB)
    const { send, calls } = sender()
    expect(errorOf(await send(bomb, coding))).toEqual([413, 'body_too_large', undefined])
    expect(calls.submissions).toEqual([])
  })

  it('that is cut anywhere, damaged or no such thing is rejected', async () => {
    const { send, calls } = sender()
    const body = pack(text)
    const cuts = Array.from(body, (_, length) => body.subarray(0, length))
    for (const cut of cuts) expect(errorOf(await send(cut, coding))).toEqual(INVALID)
    for (const other of [Buffer.from(text), Buffer.concat([body, Buffer.from('x')])]) {
      expect(errorOf(await send(other, coding))).toEqual(INVALID)
    }
    expect(calls.submissions).toEqual([])
  })

  it('must contain UTF-8', async () => {
    const { send } = sender()
    expect(errorOf(await send(pack(Buffer.of(0x22, 0xff, 0x22)), coding))).toEqual(NEITHER)
  })
})

describe('a bomb', () => {
  it('is decompressed no further than it is read', async () => {
    const body = Readable.from([gzipSync(Buffer.alloc(100 * MIB))])
    const decoded = decodedBody(body, 'gzip')
    const [piece] = await once(decoded, 'readable').then(() => [decoded.read() as Buffer])
    await once(decoded, 'readable')
    expect(piece?.length).toBeGreaterThan(0)
    expect(decoded.readableLength).toBeLessThan(MIB)
    decoded.destroy()
    await once(decoded, 'close')
  })
})

describe('a coding', () => {
  it('is found in any case, and is identity without the header', () => {
    expect([undefined, ' Identity', 'GZIP', 'zstd ', 'br', ''].map(bodyCodingOf))
      .toEqual(['identity', 'identity', 'gzip', 'zstd', undefined, undefined])
  })
})

describe('a body', () => {
  it('of two members of gzip is their sum', async () => {
    const { send, calls } = sender()
    const body = Buffer.concat([gzipSync(text.slice(0, 9)), gzipSync(text.slice(9))])
    expect((await send(body, 'gzip')).statusCode).toBe(202)
    expect(calls.submissions).toMatchObject([good])
  })

  it('of two frames of zstd is never read in part', async () => {
    const { send } = sender()
    const body = Buffer.concat([zstdCompressSync(text), zstdCompressSync(' ')])
    expect(errorOf(await send(body, 'zstd'))).toEqual(INVALID)
  })

  it('with a window of zstd above 8 MiB is rejected', async () => {
    const { send } = sender()
    const params = { [constants.ZSTD_c_windowLog]: 24, [constants.ZSTD_c_contentSizeFlag]: 0 }
    const body = zstdCompressSync(Buffer.alloc(17 * MIB, ' '), { params })
    expect(errorOf(await send(body, 'zstd'))).toEqual(INVALID)
  })

  it.each(['br', 'deflate', 'gzip, gzip', '', 'identity, gzip'])(
    'with the coding "%s" is 415 with those that are supported', async coding => {
      const { send } = sender()
      const answer = await send(Buffer.from(text), coding)
      expect(errorOf(answer)).toEqual([415, 'unsupported_media_type', undefined])
      expect(answer.headers['accept-encoding']).toBe('gzip, zstd, identity')
    })
})
