import { describe, expect, it } from 'vitest'
import { errorOf, field, filePart, fileSender } from './support.ts'

const PEOPLE = 'name;phone;note\r\n"Müller; Söhne";+49 30 901820;"a, ""b""\r\nc"\r\n' +
  'Ann;(212) 736-5000\r\n'
const OPTIONS = 'column=phone&countryCode=us&forceFresh=true&metadata[team]=a%20b'

describe('a job from a file', () => {
  const rows = {
    service: 'phone-validation',
    inputs: ['+49 30 901820', '(212) 736-5000'],
    country: 'US',
    forceFresh: true,
    metadata: { team: 'a b' },
    webhookUrl: '',
  } as const
  const expected = {
    ...rows,
    columns: ['name', 'phone', 'note'],
    references: ['Müller; Söhne,+49 30 901820,"a, ""b""\r\nc"', 'Ann,(212) 736-5000'],
  }

  it('has the cells of one column, and each line as it was', async () => {
    const { csv, calls } = fileSender()
    expect((await csv(PEOPLE, OPTIONS)).statusCode).toBe(202)
    expect(calls.submissions).toMatchObject([expected])
  })

  it('has the fingerprint of the equivalent request', async () => {
    const { csv, send, calls } = fileSender()
    await csv(PEOPLE, OPTIONS)
    const { service, inputs, country: countryCode, forceFresh, metadata } = rows
    const body = { service, inputs, countryCode, forceFresh, metadata }
    await send('application/json', JSON.stringify(body))
    const [file, json] = calls.submissions
    expect(file?.fingerprint).toBe(json?.fingerprint)
  })

  it('of the largest size is read in pieces', async () => {
    const { csv, calls } = fileSender()
    const lines = Array.from({ length: 100_000 }, (_, row) => `${row},+1212${row}`)
    expect((await csv(`id,phone\n${lines.join('\n')}`, 'column=2')).statusCode).toBe(202)
    const [submission] = calls.submissions
    expect(submission?.references).toEqual(lines)
    expect(submission?.inputs.at(-1)).toBe('+121299999')
  })
})

describe('a request with a file', () => {
  const csvError = async (body: string | Buffer, query = '') =>
    errorOf(await fileSender().csv(body, query))
  const formError = async (...parts: string[]) => errorOf(await fileSender().form(parts))
  const service = field('service', 'phone-validation')

  it.each([
    ['an unknown option', 'colum=1', 'colum'],
    ['an option twice', 'column=1&column=2', 'column'],
    ['a label twice', 'metadata[a]=1&metadata[a]=2', 'metadata[a]'],
    ['metadata without a name', 'metadata=1', 'metadata'],
    ['a label __proto__', 'metadata[__proto__]=1', 'metadata[__proto__]'],
  ])('is rejected for %s', async (_what, query, param) => {
    expect(await csvError('+12127365000', query)).toEqual([400, 'invalid_request', param])
  })

  it.each([
    ['none', [service], 'file'],
    ['two', [service, filePart('1234567'), filePart('1234567')], 'file'],
    ['another name', [service, filePart('1234567', 'upload')], 'upload'],
    ['too long a field', [service, field('webhook_url', 'x'.repeat(9_000)), filePart('1234567')],
      'webhook_url'],
    ['too many fields', [...Array(101).fill(service), filePart('1234567')], undefined],
  ])('as form must have one file: %s', async (_what, parts, param) => {
    expect(await formError(...parts)).toEqual([400, 'invalid_file', param])
  })

  it('as form must be whole, and known', async () => {
    const { send, form } = fileSender()
    expect(errorOf(await send('multipart/form-data', 'x')))
      .toEqual([400, 'invalid_file', undefined])
    expect(errorOf(await send('multipart/form-data; boundary=y', '--y\r\nx')))
      .toEqual([400, 'invalid_file', undefined])
    expect(errorOf(await form([service, field('color', 'red'), filePart('1234567')])))
      .toEqual([400, 'invalid_request', 'color'])
    expect(errorOf(await form([service, service, filePart('1234567')])))
      .toEqual([400, 'invalid_request', 'service'])
  })

  it('as form needs no file name, and may have a field for each item of a list', async () => {
    const { form, calls } = fileSender({}, {
      optionPrices: { line_status: 1, sim_swap: 1 },
      providers: { 'phone-validation': ['http:vendor'] },
    })
    const answer = await form([
      service, field('options', 'line_status'),
      field('options', 'sim_swap'), field('file', 'phone\n+12127365000\n'),
    ])
    expect(answer.statusCode).toBe(202)
    expect(calls.submissions)
      .toMatchObject([{ inputs: ['+12127365000'], options: ['line_status', 'sim_swap'] }])
  })

  it('is 415 on other routes, in another charset, and with another coding', async () => {
    const { send } = fileSender()
    const path = 'jobs/job_01jd3v8zj7m5n2k4q6r8s0t1w3/cancel'
    expect(errorOf(await send('text/csv', 'a', { path })))
      .toEqual([415, 'unsupported_media_type', undefined])
    expect(errorOf(await send('multipart/form-data; boundary=x', 'a', { path })))
      .toEqual([415, 'unsupported_media_type', undefined])
    for (const type of ['text/csv; charset=utf-16', 'application/json; charset=windows-1252']) {
      expect(errorOf(await send(type, 'a'))).toEqual([415, 'unsupported_media_type', undefined])
    }
    for (const path of ['jobs', 'file-previews', 'contact-lists/file']) {
      const headers = { 'content-encoding': 'br' }
      expect(errorOf(await send('text/csv', 'entry\na.example\n', { path, headers })))
        .toEqual([415, 'unsupported_media_type', undefined])
    }
  })

  it('may name its charset, which its bytes show', async () => {
    const { send, calls } = fileSender()
    const file = Buffer.from('phone,name\n1234567,M\u00fcller\n', 'latin1')
    for (const charset of ['windows-1252', 'ISO-8859-1', 'utf-8']) {
      const query = 'service=phone-validation&column=phone'
      await send(`text/csv; charset=${charset}`, file, { query })
    }
    expect(calls.submissions.map(({ references }) => references))
      .toEqual(Array(3).fill(['1234567,Müller']))
  })
})

describe('options in the query', () => {
  const body = { service: 'phone-validation', inputs: ['2127365000'] }
  const json = (query: string, more: object = {}) => {
    const { send, calls } = fileSender()
    const text = JSON.stringify({ ...body, ...more })
    return { answer: send('application/json', text, { query }), calls }
  }

  it('count for a body of JSON too, which replaces what they say', async () => {
    const { answer, calls } = json(
      'countryCode=CA&forceFresh=true&metadata[a]=b&column=phone&note=x', { countryCode: 'US' })
    expect((await answer).statusCode).toBe(202)
    expect(calls.submissions)
      .toMatchObject([{ country: 'US', forceFresh: true, metadata: { a: 'b' } }])
  })

  it('may have a question mark in a value, of a file and of JSON', async () => {
    const query = 'webhook_url=https://hooks.example/jobs?t=7&forceFresh=true'
    const { answer, calls: ofJson } = json(query)
    const { csv, calls: ofFile } = fileSender()
    expect((await answer).statusCode).toBe(202)
    expect((await csv('2127365000', query)).statusCode).toBe(202)
    const expected = { webhookUrl: 'https://hooks.example/jobs?t=7', forceFresh: true }
    expect([...ofJson.submissions, ...ofFile.submissions]).toMatchObject([expected, expected])
  })

  it('are replaced by the fields of a form', async () => {
    const { form, calls } = fileSender()
    const parts = [field('countryCode', 'US'), filePart('phone\n2127365000\n')]
    const query = 'service=phone-validation&countryCode=CA'
    expect((await form(parts, { query })).statusCode).toBe(202)
    expect(calls.submissions).toMatchObject([{ country: 'US', inputs: ['2127365000'] }])
  })

  it.each([
    ['webhook_url=', 'webhook_url'],
    [`webhook_url=https://a.example/${'x'.repeat(2_048)}`, 'webhook_url'],
  ])('are refused if they are invalid, also where the body replaces them: %s', async (
    query, param
  ) => {
    const { answer } = json(query, { webhook_url: 'https://a.example/', forceFresh: true })
    expect(errorOf(await answer)).toEqual([400, 'invalid_request', param])
  })
})
