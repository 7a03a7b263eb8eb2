import { connect } from 'node:net'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  ask, free, good, head, newCustomer, postHead, raw, refusal, service, shared,
} from './support.ts'

const GOOD = JSON.stringify(good)
const MEGABYTE = 1_024 * 1_024
const invalid = (param?: string) => [400, 'invalid_request', param]
const noJson = [400, 'invalid_json', undefined]

describe('a body', () => {
  it.each(['', '{', '{"service":', 'NaN', 'Infinity', '{"inputs":[NaN]}', "{'service':1}",
    '{"a":1,}', '{"a":01}', 'undefined', `${GOOD}${GOOD}`, `${GOOD}x`, '\u0000', '[1'])(
    'that is no JSON is 400 invalid_json: %j', async body => {
      expect(await refusal(body)).toEqual(noJson)
    })

  it.each(['null', '1', '"text"', '[]', 'true'])('that is no object is 400: %s', async body => {
    expect(await refusal(body)).toEqual(invalid())
  })

  it('may begin with a byte order mark', async () => {
    const { status, code } = await ask('/jobs', { body: `\ufeff${JSON.stringify(free)}` })
    expect([status, code]).toEqual([202, undefined])
    expect(await refusal(`\ufeff\ufeff${GOOD}`)).toEqual(noJson)
  })

  it.each([
    ['a byte no text has', Buffer.of(0x22, 0xff, 0x22)],
    ['half a character', Buffer.of(0x22, 0xc3, 0x22)],
    ['a longer form than needed', Buffer.of(0x22, 0xc0, 0xaf, 0x22)],
    ['a surrogate', Buffer.of(0x22, 0xed, 0xa0, 0x80, 0x22)],
    ['UTF-16', Buffer.from(`\ufeff${GOOD}`, 'utf16le')],
    ['Latin-1', Buffer.from('{"service":"phone-validation","inputs":["é"]}', 'latin1')],
  ])('with bytes that are no UTF-8 is 400 invalid_encoding: %s', async (_what, body) => {
    expect(await refusal(body)).toEqual([400, 'invalid_encoding', undefined])
  })

  it.each([
    ['{"service":"telegram","service":"phone-validation","inputs":["1"]}', 'service'],
    ['{"service":"phone-validation","inputs":["1"],"inputs":["2"]}', 'inputs'],
    ['{"service":"phone-validation","s\\u0065rvice":"telegram","inputs":["1"]}', 'service'],
    ['{"service":"phone-validation","inputs":["1"],"metadata":{"a":"1","a":"2"}}', 'a'],
    ['{"service":"phone-validation","inputs":["1",{"input":"1","id":"1","id":"2"}]}', 'id'],
  ])('with a field twice, at any depth, is 400 and names it: %s', async (body, param) => {
    expect(await refusal(body)).toEqual(invalid(param))
  })

  it.each([
    '{"__proto__":{"forceFresh":true},"service":"phone-validation","inputs":["1"]}',
    '{"service":"phone-validation","inputs":["1"],"metadata":{"__proto__":"x"}}',
    '{"service":"phone-validation","inputs":["1"],"metadata":{"\\u005f_proto__":"x"}}',
    '{"service":"phone-validation","inputs":["1"],"metadata":{"__proto__":{"x":"y"}}}',
    '{"constructor":{"prototype":{"x":1}},"service":"phone-validation","inputs":["1"]}',
  ])('with __proto__ or constructor.prototype, in any spelling, is 400: %s', async body => {
    const { status, code, json } = await ask('/jobs', { body })
    expect([status, code]).toEqual([400, 'invalid_request'])
    expect(json.error.message).toContain('Leave it out')
    // And no prototype was changed.
    expect(await refusal({ service })).toEqual(invalid('inputs'))
  })

  it.each([
    ['[', undefined], ['{"a":', 'a.a'],
    ['{"service":"phone-validation","inputs":[', 'inputs[0].inputs'],
  ])('with 100,000 levels of nesting is 400: of %s', async (opening, param) => {
    for (const levels of [9, 100_000]) {
      expect(await refusal(opening.repeat(levels))).toEqual(invalid(param))
    }
  })

  it.each([
    ['application/json', 'br'], ['application/json', 'deflate'], ['text/csv', 'gzip, gzip'],
    ['application/json', 'x'], ['application/gzip', 'identity'],
  ])('with another coding is 415: %s, %s', async (type, encoding) => {
    const body = gzipSync(GOOD)
    const headers = { 'content-type': type, 'content-encoding': encoding }
    expect(await refusal(body, { headers })).toEqual([415, 'unsupported_media_type', undefined])
  })

  it.each([
    ['application/json', 'gzip', gzipSync], ['text/csv', 'zstd', zstdCompressSync],
    ['multipart/form-data; boundary=x', 'gzip', gzipSync],
  ] as const)('is unpacked up to the limit: %s, %s', async (type, encoding, pack) => {
    // A hundred megabytes of it come of a hundred kilobytes.
    const body = pack(Buffer.alloc(100 * MEGABYTE, ' '))
    const headers = { 'content-type': type, 'content-encoding': encoding }
    expect(await refusal(body, { headers })).toEqual([413, 'body_too_large', undefined])
    expect(await refusal(body.subarray(0, 50), { headers }))
      .toEqual([400, 'invalid_encoding', 'Content-Encoding'])
  })

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'text/csv; charset=utf-16',
    'application/json; charset=utf-16', 'application/json; charset=latin1', 'text/json', 'json',
    'application/json, text/plain', 'application/jsonp', 'application/xml', '*/*', ';', '\u00e4'])(
    'of any media type but JSON in UTF-8 and files is 415: %s', async type => {
      expect(await refusal(GOOD, { headers: { 'content-type': type } }))
        .toEqual([415, 'unsupported_media_type', undefined])
    })

  it('without a media type is 415', async () => {
    const { status, code } = await raw([
      head('POST /api/v1/jobs HTTP/1.1', `content-length: ${GOOD.length}`), GOOD])
    expect([status, code]).toEqual([415, 'unsupported_media_type'])
    expect((await ask('/jobs', {
      body: JSON.stringify(free), headers: { 'content-type': 'Application/JSON;charset="UTF-8"' },
    })).status).toBe(202)
  })
})

describe('a large body', () => {
  it('over 34 MB, elsewhere over 64 KiB, is 413 before it is read', async () => {
    const { status, code } = await raw([postHead(`content-length: ${34 * MEGABYTE + 1}`)])
    expect([status, code]).toEqual([413, 'body_too_large'])
    const { key } = await newCustomer()
    const small = ' '.repeat(65 * 1_024)
    expect((await ask('/jobs/job_1/cancel', { key, body: small })).code).toBe('body_too_large')
  })

  it('of a gigabyte in chunks is not read beyond the limit', async () => {
    const { hostname, port } = new URL(shared().environment.baseUrl)
    const socket = connect(Number(port), hostname)
    let answer = ''
    let sentBytes = 0
    socket.on('data', data => { answer += data.toString() })
    socket.on('error', () => {})
    const closed = new Promise(resolve => socket.on('close', resolve))
    socket.write(postHead('transfer-encoding: chunked'))
    const piece = `100000\r\n${' '.repeat(MEGABYTE)}\r\n`
    const write = () => {
      while (!socket.destroyed && sentBytes < 1_024 * MEGABYTE) {
        sentBytes += MEGABYTE
        if (!socket.write(piece)) break
      }
    }
    socket.on('drain', write)
    write()
    await closed
    expect(sentBytes).toBeLessThan(100 * MEGABYTE)
    // The end may come before the answer was read; the connection is gone in either case.
    if (answer !== '') expect(answer).toMatch(/^HTTP\/1\.1 413 [^]*"code":"body_too_large"/)
    expect((await ask('/jobs', { body: free })).status).toBe(202)
  })
})
