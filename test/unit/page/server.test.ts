import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { selfSigned } from '../../../deploy/local/certificate.ts'
import { ApiError } from '../../../services/client/client.ts'
import { FatalError } from '../../../services/runtime/platform/errors.ts'
import { CONNECTION_DEFAULTS } from '../../../services/runtime/platform/http-server.ts'
import { expectProtectedAnswers } from '../../support/early-answers.ts'
import { newFolder } from '../../support/folder.ts'
import { openPage, ORGANIZATION } from '../../support/page/page-doubles.ts'

const customer = { kind: 'customer', orgId: ORGANIZATION.id } as const
const PROXIED = { remoteAddress: '10.0.0.9', headers: { 'x-forwarded-proto': 'https' } }
/** The path of the style sheet, which has a hash. */
const stylePath = async ({ ask }: ReturnType<typeof openPage>) =>
  /\/static\/[0-9a-f]{16}\/page\.css/.exec((await ask('/sign-in')).body)?.[0] ?? ''

/** Settings of a certificate that does not exist yet; `renew` writes it. */
function certificateFiles () {
  const folder = newFolder('page-certificate-')
  const tls = {
    TLS_CERT_FILE: join(folder, 'cert.pem'),
    TLS_KEY_FILE: join(folder, 'key.pem'),
    TLS_RELOAD_MS: 10,
  }
  const renew = (name: string) => {
    const { cert, key } = selfSigned(name)
    writeFileSync(tls.TLS_CERT_FILE, cert)
    writeFileSync(tls.TLS_KEY_FILE, key)
    return cert
  }
  return { tls, renew }
}

describe('every response of the page', () => {
  it('forbids content of other sites, inline scripts and caching', async () => {
    const { ask, signIn } = openPage()
    const { headers } = await ask('/sign-in')
    expect(headers['content-security-policy']).toBe("default-src 'none'; script-src 'self'; " +
      "style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
      "base-uri 'none'; frame-ancestors 'none'")
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'cross-origin-opener-policy': 'same-origin',
    })
    expect((await ask('/nowhere')).headers).toMatchObject({ 'x-content-type-options': 'nosniff' })
    const { body } = await (await signIn()).get('/live/settings')
    expect(body).not.toMatch(/<script(?![^>]* src=)|<style| style=| on[a-z]+=/)
  })

  it('protects answers before all hooks as well', async () => {
    const { app } = openPage()
    await expectProtectedAnswers(
      Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port))
  })

  it('requires HTTPS from other machines, directly or at a trusted proxy', async () => {
    const { ask } = openPage()
    const refused = await ask('/sign-in', { remoteAddress: '203.0.113.9' })
    expect([refused.statusCode, refused.body]).toEqual([403, expect.stringContaining('https://')])
    const proxied = await ask('/sign-in', PROXIED)
    expect(proxied.statusCode).toBe(200)
    expect(proxied.headers).toHaveProperty('strict-transport-security')
    expect((await ask('/sign-in')).headers).not.toHaveProperty('strict-transport-security')
  })

  it('is over HTTPS, with a Secure cookie, when the page has a certificate', async () => {
    const { tls, renew } = certificateFiles()
    const cert = renew('page')
    const { app, deps } = openPage({ tls })
    const origin = (await app.listen({ host: '127.0.0.1', port: 0 }))
    const sent = request(`${origin}/sign-in`, {
      method: 'POST',
      ca: cert,
      servername: 'localhost',
      checkServerIdentity: () => undefined,
      headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
    }).end(`code=${await deps.signInCodes.create({ kind: 'operator' })}`)
    const [answer] = await once(sent, 'response') as [IncomingMessage]
    answer.resume()
    expect(answer.headers).toMatchObject({
      location: '/pipeline', 'strict-transport-security': 'max-age=31536000',
    })
    expect(answer.headers['set-cookie']?.[0])
      .toMatch(/^__Host-session=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/)
  })

  it('comes with a renewed certificate as soon as there is one', async () => {
    const { tls, renew } = certificateFiles()
    const first = renew('first')
    const { app } = openPage({ tls })
    const origin = await app.listen({ host: '127.0.0.1', port: 0 })
    const ask = async (ca: string) => {
      const sent = request(`${origin}/sign-in`, { ca, agent: false, servername: 'localhost' }).end()
      const [answer] = await once(sent, 'response') as [IncomingMessage]
      answer.resume()
      return (answer.socket as TLSSocket).getPeerCertificate().subject.CN
    }
    expect(await ask(first)).toBe('first')
    const second = renew('second')
    await expect.poll(() => ask(second).catch(() => '')).toBe('second')
  })

  it('needs a certificate with its key', () => {
    const { tls } = certificateFiles()
    expect(() => openPage({ tls: { ...tls, TLS_KEY_FILE: '' } }))
      .toThrow('Set both TLS_CERT_FILE and TLS_KEY_FILE, or neither.')
  })
})

it('a static file is cached forever under a path with a content hash', async () => {
  const page = openPage()
  const { statusCode, headers } = await page.ask(await stylePath(page))
  expect([statusCode, headers]).toMatchObject([200, {
    'content-type': 'text/css; charset=utf-8',
    'cache-control': 'public, max-age=31536000, immutable',
  }])
})

describe('requests without a session', () => {
  it.each([
    ['/sign-in', ''], ['/nothing', ''], ['/live/overview', ''], ['/live/overview', 'session=wrong'],
    ['STYLE', ''],
  ])('of %s with the cookie "%s" are limited, others are served', async (path, cookie) => {
    // Hardly anything flows in while the test runs.
    const limits = { LIMIT_PUBLIC: 20, LIMIT_PUBLIC_SECONDS: 100_000 }
    const page = openPage({ connection: { ...CONNECTION_DEFAULTS, ...limits } })
    const url = path === 'STYLE' ? await stylePath(openPage()) : path
    const visitor = await page.signIn()
    for (let sent = 0; sent < 20; sent++) {
      expect((await page.ask(url, { headers: { cookie } })).statusCode).not.toBe(429)
    }
    const refused = await page.ask(url, { headers: { cookie } })
    expect([refused.statusCode, refused.headers.connection]).toEqual([429, 'close'])
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect((await visitor.get('/live/settings')).statusCode).toBe(200)
  })

  it('are redirected to the sign-in, or answered 401 for a script', async () => {
    const { ask } = openPage()
    const { statusCode, headers } = await ask('/live/overview')
    expect([statusCode, headers.location]).toEqual([303, '/sign-in?notice=signed-out'])
    const script = await ask('/live/live?job=job_1')
    expect([script.statusCode, script.json().error.status]).toEqual([401, 401])
    expect((await ask('/')).headers.location).toBe('/sign-in')
  })
})

describe('the session cookie', () => {
  it('is accepted over HTTPS only with the prefix that no other host can set', async () => {
    const { ask, signIn } = openPage()
    const { id } = await signIn()
    const overHttps = async (cookie: string) => (await ask('/live/settings', {
      ...PROXIED, headers: { ...PROXIED.headers, cookie },
    })).statusCode
    expect([await overHttps(`session=${id}`), await overHttps(`__Host-session=${id}`)])
      .toEqual([303, 200])
  })

  it('of an erased organization is worth nothing, while operators keep theirs', async () => {
    const { deps, signIn } = openPage()
    const visitor = await signIn()
    await deps.organizations.markErased(ORGANIZATION.id)
    const { statusCode, headers } = await visitor.get('/live/settings')
    expect([statusCode, headers.location]).toEqual([303, '/sign-in?notice=signed-out'])
    expect((await (await signIn('operator')).get('/')).headers.location).toBe('/pipeline')
  })
})

describe('the sign-in by a link', () => {
  it('is rejected when another site submits it', async () => {
    const { ask, post, deps } = openPage()
    const code = await deps.signInCodes.create({ kind: 'operator' })
    for (const headers of [
      { origin: 'https://evil.example' }, { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' },
    ]) expect((await post('/sign-in', { code }, headers)).statusCode).toBe(403)
    const { statusCode } = await ask('/sign-in', {
      method: 'POST',
      payload: `code=${code}`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
    expect(statusCode).toBe(403)
    expect(await deps.signInCodes.redeem(code)).toEqual({ kind: 'operator' })
  })

  it('is refused to an erased organization, with a page that says why', async () => {
    const { post, deps } = openPage()
    const code = await deps.signInCodes.create(customer)
    await deps.organizations.markErased(ORGANIZATION.id)
    const { statusCode, headers, body } = await post('/sign-in', { code })
    expect([statusCode, headers['set-cookie']]).toEqual([410, undefined])
    expect(body).toMatch(/This organization was erased[^]+href="\/sign-in"/)
  })
})

describe('a form of the page', () => {
  it('is rejected without the token of its session', async () => {
    const { signIn } = openPage()
    const [visitor, other] = [await signIn(), await signIn()]
    for (const token of ['', `${visitor.session.token}x`, other.session.token]) {
      expect([token, (await visitor.send('/sign-out', { form_token: token })).statusCode])
        .toEqual([token, 403])
    }
    const { statusCode, headers } = await visitor.send('/sign-out')
    expect([statusCode, headers.location]).toEqual([303, '/sign-in?notice=left'])
    expect((await visitor.get('/live/settings')).statusCode).toBe(303)
  })

  it('of a script is rejected before it is read, or when it is no file with options', async () => {
    const { ask, signIn } = openPage()
    const { cookie, session: { token } } = await signIn()
    for (const [sentToken, type, status] of [
      ['another', 'application/json', 403], [token, 'application/json', 400],
      [token, 'text/csv', 400],
    ] as const) {
      const answer = await ask('/live/upload/quote', {
        method: 'POST',
        payload: '{}',
        headers: { cookie, origin: 'http://h', 'x-form-token': sentToken, 'content-type': type },
      })
      expect([answer.statusCode, answer.json().error.status]).toEqual([status, status])
    }
  })
})

it('a notice on a page is a known message, never text from the URL', async () => {
  const { ask } = openPage()
  const notice = async (name: string) =>
    /class="notice" role="status">([^<]+)/.exec((await ask(`/sign-in?notice=${name}`)).body)?.[1]
  expect([await notice('left'), await notice('%3Cb%3E'), await notice('constructor')])
    .toEqual(['You have signed out.', undefined, undefined])
})

describe('an error page', () => {
  const answer = (status: number, code: string, message: string) =>
    new ApiError(new Response(null, { status }), JSON.stringify({ error: { code, message } }))

  it.each([
    [answer(402, 'insufficient_balance', 'Top up.'), 402, 'That did not work Top up. Go to'],
    [answer(404, 'job_not_found', 'inner'), 404, 'There is no such page'],
    [answer(401, 'unauthorized', 'inner'), 503, 'The service is not available'],
    [answer(503, 'unavailable', 'inner'), 503, 'The service is not available'],
    [answer(500, 'internal', 'inner'), 500, 'Something went wrong on our side'],
    [new TypeError('fetch failed', { cause: new Error('inner') }), 503, 'is not available'],
    [Object.assign(new Error('inner'), { name: 'TimeoutError' }), 503, 'is not available'],
    [new FatalError('inner: WEBHOOKS_ROOT_KEYS lacks key "1"'), 503, 'is not available'],
    [Object.assign(new Error('inner'), { statusCode: 415 }), 400, 'could not be read'],
    [Object.assign(new Error('inner'), { code: 'FST_ERR_CTP_BODY_TOO_LARGE' }), 413, 'too large'],
    [new Error('inner'), 500, 'Number: req_'],
  ])('shows of "%s" what a customer can use: %d, %s', async (error, status, text) => {
    const { signIn } = openPage({ client: { job: async () => { throw error } } })
    const visitor = await signIn()
    expect((await visitor.get('/live/jobs/job_1')).statusCode).toBe(status)
    const shown = await visitor.read('/live/jobs/job_1')
    expect(shown).toContain(text)
    expect(shown).not.toContain('inner')
  })
})
