import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { sendRaw } from '../../../services/ingest/response.ts'
import type { ErrorCode } from '../../../services/ingest/errors.ts'

/** Everything written to a socket until it is closed. */
async function answerOf (code: ErrorCode): Promise<readonly [head: string, body: string]> {
  const socket = new PassThrough()
  sendRaw(socket, code, 'req_1')
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n')
  return [head, body]
}

describe('a raw response', () => {
  it('has the format and headers of all errors, and closes the connection', async () => {
    const [head, body] = await answerOf('request_timeout')
    expect(head).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
    expect(head).toContain(`Content-Length: ${body.length}\r\nX-Request-Id: req_1\r\n`)
    expect(head).toMatch(/\r\nConnection: close$/)
    expect(JSON.parse(body)).toMatchObject({
      error: { code: 'request_timeout', request_id: 'req_1' },
    })
  })

  it('has Retry-After if the error is temporary', async () => {
    const [head] = await answerOf('temporarily_unavailable')
    expect(head).toMatch(/^HTTP\/1\.1 503 /)
    expect(head).toMatch(/\r\nRetry-After: \d+\r\n/)
    expect((await answerOf('request_timeout'))[0]).not.toContain('Retry-After')
  })
})
