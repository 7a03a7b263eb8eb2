import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { ask, service } from './support.ts'

it('a preview of no file, of no text, or with options of jobs is refused', async () => {
  const preview = async (body: Uint8Array | string, query: object = {}, type = 'text/csv') => {
    const { status, code, json } = await ask(
      `/file-previews?${new URLSearchParams({ ...query })}`,
      { body, headers: { 'content-type': type } })
    return [status, code, json.error?.param ?? json.service]
  }
  const phones = 'name,phone\nAnn,+12127365000\n'
  expect(await preview(phones)).toEqual([200, undefined, service])
  expect(await preview(JSON.stringify({ service, inputs: ['+1'] }), {}, 'application/json'))
    .toEqual([415, 'unsupported_media_type', undefined])

  const noText = [Buffer.from('%PDF-1.7\n%\xe2\xe3', 'latin1'), Buffer.from('\x89PNG\r\n\x1a\n',
    'latin1'), Buffer.from('PK\u0003\u0004broken'), gzipSync(phones), Buffer.alloc(1_000),
  Buffer.from('d0cf11e0a1b11ae1', 'hex'), Buffer.from('phone\n\u0000+1\n')]
  for (const body of noText) {
    const [status, code] = await preview(body)
    expect([body.subarray(0, 8), status, ['invalid_file', 'invalid_encoding'].includes(code)])
      .toEqual([body.subarray(0, 8), 400, true])
  }
  for (const body of ['', '\ufeff', '\n\n', '"', 'a,b\n"never closed', 'x'.repeat(1_000_000)]) {
    const [status, code] = await preview(body)
    expect([body.slice(0, 9), [undefined, 'invalid_file'].includes(code as string)])
      .toEqual([body.slice(0, 9), true])
    expect([200, 400]).toContain(status)
  }
  for (const [query, ...answer] of [
    [{ service: 'fax' }, 400, 'unknown_service', 'service'],
    [{ service: '__proto__' }, 400, 'unknown_service', 'service'],
    [{ column: '9' }, 400, 'invalid_request', 'column'],
    [{ column: 'mobile' }, 400, 'invalid_request', 'column'],
    [{ delimiter: ':' }, 400, 'invalid_request', 'delimiter'],
    [{ header: 'maybe' }, 400, 'invalid_request', 'header'],
    [{ sheet: '1' }, 400, 'invalid_request', 'sheet'],
    [{ countryCode: 'US' }, 400, 'invalid_request', 'countryCode'],
    [{ sample: 'true' }, 400, 'invalid_request', 'sample'],
    [{ options: 'sim_swap' }, 400, 'invalid_request', 'options'],
    [{ Header: 'true' }, 400, 'invalid_request', 'Header'],
  ] as const) {
    expect([query, ...await preview(phones, query)]).toEqual([query, ...answer])
  }
})
