import { afterEach, describe, expect, it } from 'vitest'
import type { FastifyInstance } from 'fastify'
import type { Identity } from '../../../services/accounts/people.ts'
import { createPage } from '../../../services/page/app.ts'
import {
  SignInError, type SignInFlow,
} from '../../../services/page/identity-provider.ts'
import { subjectOf } from '../../../services/page/provider-sign-in.ts'
import { endSession, startSession } from '../../../services/page/sign-in.ts'
import { createPageDeps, ORGANIZATION } from '../../support/page/page-doubles.ts'

const opened: FastifyInstance[] = []
afterEach(async () => { await Promise.all(opened.splice(0).map(app => app.close())) })

const ann: Identity = { issuer: 'https://login.example', subject: '1', email: 'ann@example.com' }

/** A page behind HTTPS whose provider recognizes everybody as a person, or fails. */
async function open (outcome: Identity | SignInError = ann) {
  const completed: SignInFlow[] = []
  const deps = createPageDeps({}, {
    identityProvider: {
      start: async wanted => ({
        url: 'https://login.example/authorize',
        flow: { state: 's', nonce: 'n', verifier: 'v', ...wanted },
      }),
      complete: async (_query, flow) => {
        completed.push(flow)
        if (outcome instanceof SignInError) throw outcome
        return { identity: outcome, authenticatedAtMs: 5 }
      },
    },
  })
  const app = createPage({ deps, trustedProxies: ['127.0.0.1'] })
  opened.push(app)
  await deps.people.add(ORGANIZATION.id, { email: ann.email, role: 'owner', createdBy: '' })
  const get = (url: string, cookie = '') => app.inject({
    url, headers: { cookie, host: 'page.example', 'x-forwarded-proto': 'https' },
  })
  const start = async (query = '') => {
    const { headers, cookies } = await get(`/sign-in/start${query}`)
    return { location: headers.location, cookie: cookies[0] }
  }
  return { deps, get, start, completed }
}

describe('the start of a sign-in', () => {
  it('redirects to the provider and binds the browser by a cookie for ten minutes', async () => {
    const { start } = await open()
    const { location, cookie } = await start()
    expect(location).toBe('https://login.example/authorize')
    expect(cookie).toMatchObject({
      name: '__Host-sign-in',
      httpOnly: true,
      sameSite: 'Strict',
      secure: true,
      path: '/',
      maxAge: 600,
    })
  })

  it('does not exist without a provider', async () => {
    const app = createPage({ deps: createPageDeps(), trustedProxies: [] })
    opened.push(app)
    expect((await app.inject({ url: '/sign-in/start' })).statusCode).toBe(404)
    expect((await app.inject({ url: '/sign-in' })).body).not.toContain('/sign-in/start')
  })
})

describe('the return from the provider', () => {
  it('goes on to a request of this site, with nothing but its query', async () => {
    const { get } = await open()
    const { body } = await get('/sign-in/callback?code=a%22%3E%3Cb%3E&state=s;url=//evil.example')
    expect(body).toContain('<meta http-equiv="refresh" content="0;url=/sign-in/complete?' +
      'code=a%22%3E%3Cb%3E&amp;state=s%3Burl%3D%2F%2Fevil.example">')
  })

  it('makes a session with a new id, ends the old one, and uses the cookie up', async () => {
    const { deps, get, start } = await open()
    const old = await deps.sessions.create({ kind: 'operator' })
    const { cookie } = await start('?again=yes&back=%2Ftest%2Fkeys')
    const answer = await get('/sign-in/complete?code=c&state=s',
      `__Host-sign-in=${cookie?.value}; __Host-session=${old.id}`)
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/test/keys'])
    const [flow, session] = answer.cookies
    expect(flow).toMatchObject({ name: '__Host-sign-in', value: '', maxAge: 0 })
    expect(session).toMatchObject({
      name: '__Host-session', httpOnly: true, sameSite: 'Strict', secure: true,
    })
    expect(session?.value).not.toBe(old.id)
    expect(await deps.sessions.find(old.id)).toBeUndefined()
    const [person] = await deps.people.list(ORGANIZATION.id)
    expect(await deps.sessions.find(session?.value ?? '')).toMatchObject({
      authenticatedAtMs: 5,
      subject: {
        kind: 'customer', orgId: ORGANIZATION.id, person: { id: person?.id, generation: 0 },
      },
    })
    expect([startSession.length, endSession.length]).toEqual([3, 3])
    expect(subjectOf({ orgId: 'o', person: person! }))
      .toMatchObject({ orgId: 'o', person: { id: person?.id } })
  })

  it('asks no provider without the cookie, or with one that is not readable', async () => {
    const { get, completed } = await open()
    for (const cookie of ['', '__Host-sign-in=x', 'sign-in=e30']) {
      expect((await get('/sign-in/complete?code=c&state=s', cookie)).statusCode).toBe(403)
    }
    expect(completed).toEqual([])
  })

  it('leads to no other site, whatever the cookie says', async () => {
    const { get } = await open()
    const flow = { state: 's', nonce: 'n', verifier: 'v', back: 'https://evil.example/live/keys' }
    const value = Buffer.from(JSON.stringify(flow)).toString('base64url')
    expect((await get('/sign-in/complete?code=c&state=s', `__Host-sign-in=${value}`))
      .headers.location).toBe('/live/overview')
  })

  it.each([
    [new SignInError('unavailable', 'x'), 503, 'does not answer'],
    [new SignInError('rejected', 'x'), 403, 'did not succeed'],
    [{ ...ann, email: '' }, 403, 'does not confirm your e-mail address'],
    [{ ...ann, email: '<b>@example.com' }, 403, '&lt;b&gt;@example.com is not a member'],
  ])('explains why nobody is signed in: %o', async (outcome, status, text) => {
    const { get, start } = await open(outcome)
    const { cookie } = await start()
    const answer = await get('/sign-in/complete?code=c&state=s', `__Host-sign-in=${cookie?.value}`)
    expect([answer.statusCode, answer.body]).toEqual([status, expect.stringContaining(text)])
    expect(answer.cookies.map(({ name }) => name)).toEqual(['__Host-sign-in'])
  })
})
