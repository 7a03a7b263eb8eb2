import { afterEach, describe, expect, it } from 'vitest'
import type { FastifyInstance, InjectOptions } from 'fastify'
import { createPage } from '../../../../services/workspace/page/app.ts'
import { assetPath, assets } from '../../../../services/workspace/page/assets.ts'
import { cookieName } from '../../../../services/workspace/page/guard.ts'
import { pageRoutes } from '../../../../services/workspace/page/routes.ts'
import { createPageParts, ORGANIZATION } from '../../../support/page-parts.ts'

const opened: FastifyInstance[] = []
afterEach(async () => { await Promise.all(opened.splice(0).map(app => app.close())) })

const PACE = { graceMs: 1_000, bytesPerSecond: 1, wholeWithinMs: 60_000 }
const HOST = 'page.example'
const OWN = { host: HOST, origin: `http://${HOST}`, 'sec-fetch-site': 'same-origin' }
const balance = { balanceMicros: 1, reservedMicros: 0, availableMicros: 1, currency: 'USD' }
const client = {
  balance: async () => balance,
  jobsPage: async () => ({ data: [], has_more: false, next_cursor: null }),
}

function open (parts = createPageParts(client)) {
  const app = createPage({ parts, trustedProxies: ['10.0.0.0/8'] })
  opened.push(app)
  const ask = (url: string, more: InjectOptions = {}) =>
    app.inject({ method: 'GET', url, ...more, headers: { host: HOST, ...more.headers } })
  const signedIn = async (kind: 'customer' | 'operator' = 'customer') => {
    const holder = kind === 'customer' ? { kind, orgId: ORGANIZATION.id } : { kind }
    const { id, session } = await parts.sessions.begin(holder)
    return { cookie: `session=${id}`, token: session.token }
  }
  const post = (url: string, form: Record<string, string>, headers: Record<string, string>) =>
    ask(url, {
      method: 'POST',
      payload: String(new URLSearchParams(form)),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    })
  return { ask, post, signedIn, parts }
}

describe('JSON of scripts', () => {
  const sent = (token: string, cookie: string, payload: string) => ({
    method: 'POST' as const,
    payload,
    headers: { ...OWN, cookie, 'x-form-token': token, 'content-type': 'application/json' },
  })

  it('is judged before anything is built of it', async () => {
    const { ask, signedIn } = open()
    const { cookie, token } = await signedIn()
    const bodies = [
      `{"inputs":[${'{},'.repeat(1_000)}{}]}`, '{"service":{"a":{}}}', '{"a":1,"a":2}',
    ]
    for (const body of bodies) {
      const answer = await ask('/live/upload/quote', sent(token, cookie, body))
      expect([answer.statusCode, answer.json().fault.status]).toEqual([400, 400])
    }
  })

  it('needs the token of the session before a byte of the body is read', async () => {
    const { ask, signedIn } = open()
    const { cookie } = await signedIn()
    const answer = await ask('/live/upload/quote', sent('another', cookie, 'no JSON'))
    expect(answer.statusCode).toBe(403)
  })
})

describe('the cookie of a session', () => {
  it('counts over HTTPS only with the prefix that no other host can set', async () => {
    const { ask, parts } = open()
    const { id } = await parts.sessions.begin({ kind: 'customer', orgId: ORGANIZATION.id })
    const overHttps = (cookie: string) => ask('/live/overview', {
      remoteAddress: '10.0.0.1', headers: { cookie, 'x-forwarded-proto': 'https' },
    })
    expect((await overHttps(`session=${id}`)).statusCode).toBe(303)
    expect((await overHttps(`__Host-session=${id}`)).statusCode).toBe(200)
  })
})

describe('every answer', () => {
  it('lets nothing in from elsewhere and is kept nowhere', async () => {
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

  it('has no script and no style of its own', async () => {
    const { ask, signedIn } = open()
    const { cookie } = await signedIn()
    const { body } = await ask('/live/overview', { headers: { cookie } })
    expect(body).not.toMatch(/<script(?![^>]* src=)|<style| style=| on[a-z]+=/)
  })

  it('is only for HTTPS beyond this machine', async () => {
    const { ask } = open()
    const far = { remoteAddress: '203.0.113.9' }
    const answer = await ask('/sign-in', far)
    expect([answer.statusCode, answer.body]).toEqual([403, expect.stringContaining('https://')])
    const proxied = await ask('/sign-in', {
      remoteAddress: '10.0.0.9', headers: { 'x-forwarded-proto': 'https' },
    })
    expect(proxied.statusCode).toBe(200)
    expect(proxied.headers).toHaveProperty('strict-transport-security')
  })
})

describe('files', () => {
  it('may be kept for good, as their address changes with them', async () => {
    const { ask } = open()
    const answer = await ask(assetPath('page.css'))
    expect(answer.statusCode).toBe(200)
    expect(answer.headers).toMatchObject({
      'content-type': 'text/css; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
    })
    expect(assetPath('page.css')).toMatch(/^\/static\/[0-9a-f]{16}\/page\.css$/)
    expect([...assets.keys()]).toContain('csv-parse.js')
  })
})

describe('a request without a session', () => {
  it('is sent to the sign-in, or told so when a script asks', async () => {
    const { ask } = open()
    const page = await ask('/live/overview')
    expect([page.statusCode, page.headers.location])
      .toEqual([303, '/sign-in?notice=signed-out'])
    const script = await ask('/live/live?job=job_1')
    expect([script.statusCode, script.json().fault.status]).toEqual([401, 401])
    expect((await ask('/')).headers.location).toBe('/sign-in')
  })

  it('finds no page that needs none of the two', async () => {
    const { parts } = open()
    const open2 = pageRoutes(parts, PACE).filter(({ config }) => config?.access === undefined)
    expect(open2.map(({ method, url }) => `${String(method)} ${url}`)).toEqual([
      'GET /', 'GET /sign-in', 'GET /sign-in/link', 'POST /sign-in',
    ])
  })
})

describe('the sign-in', () => {
  it('uses the code at its button and sets a cookie that scripts can not read', async () => {
    const { ask, post, parts } = open()
    const code = await parts.signInCodes.create({ kind: 'customer', orgId: ORGANIZATION.id })
    // The code stands behind the # of a link, so no request ever has it in its address.
    expect((await ask('/sign-in/link')).body).toContain(`src="${assetPath('sign-in.js')}"`)
    const answer = await post('/sign-in', { code }, OWN)
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/live/overview'])
    expect(answer.headers['set-cookie'])
      .toMatch(/^session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/)
    expect((await post('/sign-in', { code }, OWN)).headers.location)
      .toBe('/sign-in?notice=link-spent')
  })

  it('sets a cookie for HTTPS only where it came over HTTPS', async () => {
    const parts = createPageParts(client)
    const app = createPage({ parts, trustedProxies: ['127.0.0.1'] })
    opened.push(app)
    const code = await parts.signInCodes.create({ kind: 'operator' })
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

  it('is not done for somebody by another site', async () => {
    const { post, parts } = open()
    const code = await parts.signInCodes.create({ kind: 'operator' })
    for (const headers of [
      {}, { ...OWN, origin: 'https://evil.example' }, { ...OWN, origin: 'null' },
      { ...OWN, 'sec-fetch-site': 'cross-site' }, { ...OWN, 'sec-fetch-site': 'same-site' },
    ]) expect((await post('/sign-in', { code }, headers)).statusCode).toBe(403)
    expect(await parts.signInCodes.redeem(code)).toEqual({ kind: 'operator' })
  })
})

describe('a form', () => {
  it('needs the token of its session', async () => {
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

describe('roles', () => {
  it('see their own pages only', async () => {
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
