import { describe, expect, it } from 'vitest'
import { answerTo, ask, ended, newCustomer, openRequest, PROXY, service, shared }
  from './support.ts'

const nobodys = '/jobs/job_01jd3v8zj7m5n2k4q6r8s0t1w3'

/** Every code that an answer may have, by status. */
const CODES: Readonly<Record<number, string>> = {
  400: 'invalid_json invalid_encoding invalid_request unknown_service service_not_configured ' +
    'invalid_country_code invalid_file too_many_inputs invalid_webhook_url invalid_idempotency_key',
  401: 'missing_key invalid_key expired_key revoked_key',
  402: 'insufficient_balance',
  403: 'insufficient_scope address_not_allowed https_required',
  404: 'job_not_found webhook_endpoint_not_found not_found',
  405: 'method_not_allowed',
  406: 'not_acceptable',
  408: 'request_timeout',
  409: 'job_not_completed job_not_ended job_not_cancellable cursor_moved ' +
    'webhook_endpoints_limit contact_lists_full',
  410: 'results_expired results_erased',
  413: 'body_too_large',
  415: 'unsupported_media_type',
  422: 'idempotency_key_reused',
  429: 'rate_limited concurrent_jobs_limit too_many_streams',
  431: 'headers_too_large',
  500: 'internal',
  503: 'temporarily_unavailable too_many_preflights wallet_unavailable',
}

describe.concurrent('an error', () => {
  it('has one form, and every answer has an X-Request-Id', async () => {
    const { test } = await newCustomer()
    const answers = [
      await ask('/jobs'), await test.ask(nobodys), await test.ask('/nothing'),
      await test.ask('//%zz'), await test.ask('/jobs', { method: 'DELETE' }),
      await test.ask('/jobs', { body: '{' }), await test.ask('/jobs?limit=0'),
      await test.ask('/jobs', { body: 'a=b', headers: { 'content-type': 'text/plain' } }),
    ]
    for (const { headers, json } of answers) {
      expect(json).toEqual({
        error: expect.objectContaining({
          type: expect.stringMatching(/^[a-z_]+$/),
          code: expect.stringMatching(/^[a-z_]+$/),
          message: expect.stringMatching(/^\w.{10,}\.$/),
          request_id: headers.get('x-request-id'),
        }),
      })
    }
    const served = [await test.ask('/balance'), await ask('//changelog')]
    const ids = [...answers, ...served].map(({ headers }) => headers.get('x-request-id'))
    expect(ids.filter(id => id === null)).toEqual([])
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('is in one table, the description of the interface', async () => {
    const { json, text } = await ask('//openapi.json')
    const table = [...JSON.stringify(json).matchAll(/\| (\d{3}) \| `([a-z_]+)` \|/g)]
      .map(([, status, code]) => `${status} ${code}`)
    const expected = Object.entries(CODES).flatMap(([status, codes]) =>
      codes.split(' ').map(code => `${status} ${code}`))
    expect(table.toSorted()).toEqual(expected.toSorted())
    expect(text).toContain('temporarily_unavailable')
  })

  it('for a wrong path is 404', async () => {
    const { test } = await newCustomer()
    for (const path of ['/nothing', '/jobs/a/b/c', '//nothing', '//api/v2/jobs']) {
      const { status, code } = await test.ask(path)
      expect([path, status, code]).toEqual([path, 404, 'not_found'])
    }
  })
})

describe.concurrent('what is open to all', () => {
  it('are the documents over HTTPS; health and metrics have a port of their own',
    async () => {
      const { headers, json } = await ask('//openapi.json')
      expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
      expect(json).toMatchObject({ openapi: '3.1.0', info: { version: '2026-08-11' } })
      expect((await ask('//docs')).text).toContain('/api/v1/jobs/{id}/cancel')
      expect((await ask('//changelog')).text).toContain('## 2026-08-11')
      for (const path of ['//metrics', '//healthz', '//readyz']) {
        expect([path, (await ask(path)).status]).toEqual([path, 404])
      }
      const { services } = shared().environment
      const ingest = services.list().find(({ name }) => name === 'ingest-1')
      const metrics = await fetch(ingest?.metricsUrl ?? '')
      expect([metrics.status, (await metrics.text()).includes('# HELP')]).toEqual([200, true])
    })
})

describe.concurrent('the version', () => {
  it('is echoed in every answer and has no other switch than the path', async () => {
    const { test } = await newCustomer()
    const { job } = await ended(test, { service, inputs: ['x'] })
    const answers = [
      await ask('//changelog'), await ask('/jobs'), await test.ask('/nothing'),
      await test.ask('/balance'), await test.ask(`/jobs/${job.id}/results`),
      await test.ask('/balance', { headers: { 'api-version': '2020-01-01' } }),
    ]
    expect(answers.map(({ headers }) => headers.get('api-version')))
      .toEqual(answers.map(() => '2026-08-11'))
  })
})

describe.concurrent('a request through a proxy', () => {
  it('must be HTTPS on its outer side, and only known proxies are trusted', async () => {
    const { live } = await newCustomer()
    const through = async (path: string, localAddress: string, proto: string) => {
      const headers = { authorization: `Bearer ${live.key}`, 'x-forwarded-proto': proto }
      const sent = openRequest(path, { localAddress, headers })
      sent.end()
      return await answerTo(sent)
    }
    for (const path of ['/balance', '//openapi.json']) {
      const secure = await through(path, PROXY, 'https')
      expect([path, secure.status]).toEqual([path, 200])
      expect(secure.headers['strict-transport-security']).toMatch(/^max-age=\d{7,}/)
      for (const [from, proto] of [
        [PROXY, 'http'], [PROXY, ''], [PROXY, 'https, http'], ['127.0.0.1', 'http'],
      ] as const) {
        const { status, json } = await through(path, from, proto)
        expect([path, from, proto, status, json.error.code])
          .toEqual([path, from, proto, 403, 'https_required'])
      }
    }
  })
})
