import Fastify, { type FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import { ApiException } from '../../../services/ingest/errors.ts'
import { acceptJson, bodyHeaderError } from '../../../services/ingest/json-body.ts'

const faultOf = (headers: object) =>
  bodyHeaderError({ headers } as unknown as FastifyRequest)?.fault.code

describe('the headers of a body', () => {
  it.each([
    { 'content-type': 'application/json' },
    { 'content-type': 'application/json', 'content-encoding': ' Identity ' },
    { 'content-type': 'application/json; charset = "utf8"' },
  ])('%j may come with one', headers => {
    expect(faultOf(headers)).toBeUndefined()
  })

  it.each([
    {},
    { 'content-type': 'application/json', 'content-encoding': 'br' },
    { 'content-type': 'application/json; charset=latin1' },
    { 'content-type': 'application/json; charset=' },
  ])('%j exclude it', headers => {
    expect(faultOf(headers)).toBe('unsupported_media_type')
  })
})

describe('a body', () => {
  /** The error for a rejected body, or its parsed value. */
  async function outcomeOf (payload: string | Buffer): Promise<unknown> {
    const app = Fastify()
    acceptJson(app)
    app.setErrorHandler((error, _request, reply) =>
      reply.send({ fault: error instanceof ApiException ? error.fault : 'another error' }))
    app.post('/', async request => ({ value: request.body }))
    const headers = { 'content-type': 'application/json' }
    return (await app.inject({ method: 'POST', url: '/', headers, payload })).json()
  }

  it('is parsed from bytes of UTF-8', async () => {
    expect(await outcomeOf('{"a":["ü"]}')).toEqual({ value: { a: ['ü'] } })
  })

  it.each<[payload: string | Buffer, fault: object]>([
    [Buffer.of(0x22, 0xc3, 0x22), { code: 'invalid_encoding' }],
    ['{"a":', {
      code: 'invalid_json',
      message: 'The body is not valid JSON at line 1, column 6. Send one JSON object.',
    }],
    ['{\n  "secret text" 1}', {
      code: 'invalid_json',
      message: 'The body is not valid JSON at line 2, column 17. Send one JSON object.',
    }],
    ['{"a":1,"a":2}', {
      code: 'invalid_request', param: 'a', message: 'The field appears twice. Send it once.',
    }],
    ['['.repeat(9), { code: 'invalid_request', message: 'The body is nested too deeply.' }],
  ])('%j is refused', async (payload, fault) => {
    expect(await outcomeOf(payload)).toEqual({ fault })
  })

  it('that is large is parsed as well, one a turn', async () => {
    const inputs = Array.from({ length: 20_000 }, (_, row) => `+1212${row}`)
    const bodies = await Promise.all([1, 2].map(() => outcomeOf(JSON.stringify({ inputs }))))
    expect(bodies).toEqual([{ value: { inputs } }, { value: { inputs } }])
  })
})
