import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { ask, newCustomer, newNumbers, service } from './support.ts'

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

it('results that are read while a job runs, and its events ' +
  'are 400 for a cursor or event id that was never given out', async () => {
  const { client, key } = await newCustomer()
  const { id } = await client.createJob({ service, inputs: newNumbers(2) })
  await client.waitForEnd(id)
  const read = async (query: Readonly<Record<string, string>>) => {
    const { status, code, json } = await ask(
      `/jobs/${id}/results?${new URLSearchParams({ format: 'jsonl', ...query })}`, { key })
    return [status, code, json.error?.param]
  }
  for (const provisional of ['false', '1', 'TRUE', '', 'true ', 'true,true']) {
    expect([provisional, ...await read({ provisional })])
      .toEqual([provisional, 400, 'invalid_request', 'provisional'])
  }
  for (const format of ['csv', 'json', 'xlsx', 'parquet']) {
    expect((await read({ format, provisional: 'true' })).slice(0, 2))
      .toEqual([400, 'invalid_request'])
  }
  expect(await read({ after: '1' })).toEqual([400, 'invalid_request', 'after'])
  const never = ['', '0', '-1', '1e9', ' 1', 'null', '٣', '../1', '%00', 'x'.repeat(101),
    '9'.repeat(100), '\u0000', id, "1' OR 1=1"]
  for (const after of never) {
    expect([after, ...await read({ provisional: 'true', after })])
      .toEqual([after, 400, 'invalid_request', 'after'])
  }
  for (const last of never.filter(text => /^[\x21-\x7e]+$/.test(text))) {
    const { status, code, json } = await ask(`/jobs/${id}/events`,
      { key, headers: { 'last-event-id': last } })
    expect([last, status, code, json.error.param])
      .toEqual([last, 400, 'invalid_request', 'Last-Event-ID'])
  }
})
