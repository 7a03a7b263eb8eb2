import { afterEach, describe, expect, it } from 'vitest'
import type { FastifyInstance, InjectOptions } from 'fastify'
import { CONNECTION_DEFAULTS } from '../../../services/runtime/platform/http-server.ts'
import { createPage } from '../../../services/page/app.ts'
import { assetPath } from '../../../services/page/layout.ts'
import { cookieName } from '../../../services/page/guard.ts'
import { createPageDeps, ORGANIZATION } from '../../support/page/page-doubles.ts'

const opened: FastifyInstance[] = []
afterEach(async () => { await Promise.all(opened.splice(0).map(app => app.close())) })

const HOST = 'page.example'
const OWN = { host: HOST, origin: `http://${HOST}`, 'sec-fetch-site': 'same-origin' }
const balance = { balanceMicros: 1, reservedMicros: 0, availableMicros: 1, currency: 'USD' }
const client = {
  balance: async () => balance,
  jobsPage: async () => ({ data: [], has_more: false, next_cursor: null }),
}

function open (deps = createPageDeps(client), connection = CONNECTION_DEFAULTS) {
  const app = createPage({ deps, trustedProxies: ['10.0.0.0/8'], connection })
  opened.push(app)
  const ask = (url: string, more: InjectOptions = {}) =>
    app.inject({ method: 'GET', url, ...more, headers: { host: HOST, ...more.headers } })
  const signedIn = async (kind: 'customer' | 'operator' = 'customer') => {
    const subject = kind === 'customer' ? { kind, orgId: ORGANIZATION.id } : { kind }
    const { id, session } = await deps.sessions.create(subject)
    return { cookie: `session=${id}`, token: session.token }
  }
  const post = (url: string, form: Record<string, string>, headers: Record<string, string>) =>
    ask(url, {
      method: 'POST',
      payload: String(new URLSearchParams(form)),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    })
  return { ask, post, signedIn, deps }
}

describe('a file from a script of the page', () => {
  const sent = (token: string, cookie: string, type = 'text/csv') => ({
    method: 'POST' as const,
    payload: '{}',
    headers: { ...OWN, cookie, 'x-form-token': token, 'content-type': type },
  })

  it('is rejected with another media type, and without its options', async () => {
    const { ask, signedIn } = open()
    const { cookie, token } = await signedIn()
    for (const type of ['application/json', 'text/csv']) {
      const answer = await ask('/live/upload/quote', sent(token, cookie, type))
      expect([answer.statusCode, answer.json().error.status]).toEqual([400, 400])
    }
  })

  it('is rejected without the token of the session before it is read', async () => {
    const { ask, signedIn } = open()
    const { cookie } = await signedIn()
    const answer = await ask('/live/upload/quote', sent('another', cookie))
    expect(answer.statusCode).toBe(403)
  })
})

describe('requests without a session', () => {
  it.each([
    ['/sign-in', ''], ['/nothing', ''], ['/live/overview', ''], ['/live/overview', 'session=wrong'],
    [assetPath('page.css'), ''],
  ])('of %s with the cookie "%s" are limited, others are served', async (url, cookie) => {
    // Hardly anything flows in while the test runs.
    const limits = { LIMIT_PUBLIC: 20, LIMIT_PUBLIC_SECONDS: 100_000 }
    const { ask, signedIn } = open(undefined, { ...CONNECTION_DEFAULTS, ...limits })
    const session = await signedIn()
    for (let sent = 0; sent < 20; sent++) {
      expect((await ask(url, { headers: { cookie } })).statusCode).not.toBe(429)
    }
    const refused = await ask(url, { headers: { cookie } })
    expect([refused.statusCode, refused.headers.connection]).toEqual([429, 'close'])
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect((await ask('/live/overview', { headers: session })).statusCode).toBe(200)
  })
})

describe('a static file', () => {
  it('is compressed, and not sent again', async () => {
    const { ask } = open()
    const { headers } = await ask(assetPath('page.css'), { headers: { 'accept-encoding': 'br' } })
    expect(headers).toMatchObject({
      'content-encoding': 'br', 'cache-control': 'public, max-age=31536000, immutable',
    })
    const again = await ask(assetPath('page.css'), {
      headers: { 'accept-encoding': 'br', 'if-none-match': String(headers.etag) },
    })
    expect([again.statusCode, again.body]).toEqual([304, ''])
  })
})

describe('the session cookie', () => {
  it('is accepted over HTTPS only with the prefix that no other host can set', async () => {
    const { ask, deps } = open()
    const { id } = await deps.sessions.create({ kind: 'customer', orgId: ORGANIZATION.id })
    const overHttps = (cookie: string) => ask('/live/overview', {
      remoteAddress: '10.0.0.1', headers: { cookie, 'x-forwarded-proto': 'https' },
    })
    expect((await overHttps(`session=${id}`)).statusCode).toBe(303)
    expect((await overHttps(`__Host-session=${id}`)).statusCode).toBe(200)
  })
})

describe('every response of the page', () => {
  it('forbids content of other sites and caching', async () => {
    const { ask } = open()
    const { headers } = await ask('/sign-in')
    expect(headers['content-security-policy']).toBe("default-src 'none'; script-src 'self'; " +
      "style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
      "base-uri 'none'; frame-ancestors 'none'")
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'cross-origin-opener-policy': 'same-origin',
    })
    expect(headers).not.toHaveProperty('strict-transport-security')
    expect((await ask('/nowhere')).headers).toMatchObject({ 'x-content-type-options': 'nosniff' })
  })

  it('contains no inline script and no inline style', async () => {
    const { ask, signedIn } = open()
    const { cookie } = await signedIn()
    const { body } = await ask('/live/overview', { headers: { cookie } })
    expect(body).not.toMatch(/<script(?![^>]* src=)|<style| style=| on[a-z]+=/)
  })

  it('requires HTTPS from other machines', async () => {
    const { ask } = open()
    const remote = { remoteAddress: '203.0.113.9' }
    const answer = await ask('/sign-in', remote)
    expect([answer.statusCode, answer.body]).toEqual([403, expect.stringContaining('https://')])
    const proxied = await ask('/sign-in', {
      remoteAddress: '10.0.0.9', headers: { 'x-forwarded-proto': 'https' },
    })
    expect(proxied.statusCode).toBe(200)
    expect(proxied.headers).toHaveProperty('strict-transport-security')
  })
})

describe('static files', () => {
  it('are cached forever under a path with a content hash', async () => {
    const { ask } = open()
    const answer = await ask(assetPath('page.css'))
    expect(answer.statusCode).toBe(200)
    expect(answer.headers).toMatchObject({
      'content-type': 'text/css; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
    })
    expect(assetPath('page.css')).toMatch(/^\/static\/[0-9a-f]{16}\/page\.css$/)
    const format = (await ask(assetPath('csv-format.js'))).body
    const url = `data:text/javascript,${encodeURIComponent(format)}`
    const { detectFormat } = await import(/* @vite-ignore */ url) as
      typeof import('../../../schemas/files/csv-format.ts')
    expect(detectFormat(Buffer.from('a, b;c\n1, 2;3')).delimiter).toBe(';')
  })
})

describe('a request without a session', () => {
  it('is redirected to the sign-in, or answered 401 for a script', async () => {
    const { ask } = open()
    const page = await ask('/live/overview')
    expect([page.statusCode, page.headers.location])
      .toEqual([303, '/sign-in?notice=signed-out'])
    const script = await ask('/live/live?job=job_1')
    expect([script.statusCode, script.json().error.status]).toEqual([401, 401])
    expect((await ask('/')).headers.location).toBe('/sign-in')
  })
})

describe('an erased organization', () => {
  const deps = () => {
    const { organizations, ...others } = createPageDeps(client)
    return { ...others, organizations: { ...organizations, isErased: async () => true } }
  }

  it('has no sessions any more, while operators keep theirs', async () => {
    const { ask, signedIn } = open(deps())
    const { cookie } = await signedIn()
    const page = await ask('/live/overview', { headers: { cookie } })
    expect([page.statusCode, page.headers.location]).toEqual([303, '/sign-in?notice=signed-out'])
    const operator = await signedIn('operator')
    expect((await ask('/', { headers: { cookie: operator.cookie } })).headers.location)
      .toBe('/pipeline')
  })

  it('refuses a link that was made before, with a page that says why', async () => {
    const { post, deps: { signInCodes } } = open(deps())
    const code = await signInCodes.create({ kind: 'customer', orgId: ORGANIZATION.id })
    const answer = await post('/sign-in', { code }, OWN)
    expect([answer.statusCode, answer.headers['set-cookie']]).toEqual([410, undefined])
    expect(answer.body).toContain('This organization was erased')
    expect(answer.body).toContain('href="/sign-in"')
  })
})

describe('the sign-in', () => {
  it('redeems the code of the form and sets a cookie that scripts cannot read', async () => {
    const { ask, post, deps } = open()
    const code = await deps.signInCodes.create({ kind: 'customer', orgId: ORGANIZATION.id })
    // The code is behind the # of the link, so it is in the URL of no request.
    expect((await ask('/sign-in/link')).body).toContain(`src="${assetPath('sign-in.js')}"`)
    const answer = await post('/sign-in', { code }, OWN)
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/live/overview'])
    expect(answer.headers['set-cookie'])
      .toMatch(/^session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/)
    expect((await post('/sign-in', { code }, OWN)).headers.location)
      .toBe('/sign-in?notice=link-spent')
  })

  it('sets a Secure cookie over HTTPS', async () => {
    const deps = createPageDeps(client)
    const app = createPage({ deps, trustedProxies: ['127.0.0.1'] })
    opened.push(app)
    const code = await deps.signInCodes.create({ kind: 'operator' })
    const answer = await app.inject({
      method: 'POST',
      url: '/sign-in',
      payload: `code=${code}`,
      headers: {
        ...OWN,
        'x-forwarded-proto': 'https',
        'content-type': 'application/x-www-form-urlencoded',
      },
    })
    expect(answer.headers.location).toBe('/pipeline')
    expect(answer.headers['set-cookie'])
      .toMatch(/^__Host-session=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/)
    expect([true, false].map(cookieName)).toEqual(['__Host-session', 'session'])
  })

  it('is rejected when another site submits it', async () => {
    const { post, deps } = open()
    const code = await deps.signInCodes.create({ kind: 'operator' })
    for (const headers of [
      {}, { ...OWN, origin: 'https://evil.example' }, { ...OWN, origin: 'null' },
      { ...OWN, 'sec-fetch-site': 'cross-site' }, { ...OWN, 'sec-fetch-site': 'same-site' },
    ]) expect((await post('/sign-in', { code }, headers)).statusCode).toBe(403)
    expect(await deps.signInCodes.redeem(code)).toEqual({ kind: 'operator' })
  })
})

describe('a form of the page', () => {
  it('is rejected without the token of its session', async () => {
    const { ask, post, signedIn } = open()
    const { cookie, token } = await signedIn()
    const other = await signedIn()
    for (const given of ['', `${token}x`, other.token]) {
      const answer = await post('/sign-out', { form_token: given }, { ...OWN, cookie })
      expect([given, answer.statusCode]).toEqual([given, 403])
    }
    const done = await post('/sign-out', { form_token: token }, { ...OWN, cookie })
    expect([done.statusCode, done.headers.location]).toEqual([303, '/sign-in?notice=left'])
    expect((await ask('/live/overview', { headers: { cookie } })).statusCode).toBe(303)
  })
})

describe('customers and operators', () => {
  it('can open only their own pages', async () => {
    const { ask, signedIn } = open()
    const [customer, operator] = [await signedIn(), await signedIn('operator')]
    const status = async (url: string, { cookie }: { readonly cookie: string }) =>
      (await ask(url, { headers: { cookie } })).statusCode
    expect(await status('/live/overview', customer)).toBe(200)
    expect(await status('/pipeline', customer)).toBe(404)
    expect(await status('/pipeline', operator)).toBe(200)
    expect(await status('/pipeline/figures', operator)).toBe(200)
    expect(await status('/live/overview', operator)).toBe(404)
    expect(await status('/other/overview', customer)).toBe(404)
  })
})
