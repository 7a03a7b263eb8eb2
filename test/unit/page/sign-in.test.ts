import { describe, expect, it } from 'vitest'
import type { Identity } from '../../../services/accounts/people.ts'
import { SignInError } from '../../../services/page/identity-provider.ts'
import { openPage, ORGANIZATION, textOf } from '../../support/page/page-doubles.ts'

const ann: Identity = { issuer: 'https://login.example', subject: '1', email: 'ann@example.com' }
const AUTHENTICATED_AT_MS = 5

/** A page behind HTTPS whose provider recognizes everybody as a person, or fails. */
async function open (identity: Identity | SignInError = ann) {
  const { deps, ask } = openPage({
    deps: {
      identityProvider: {
        start: async wanted => ({
          url: 'https://login.example/authorize',
          flow: { state: 's', nonce: 'n', verifier: 'v', ...wanted },
        }),
        complete: async () => {
          if (identity instanceof SignInError) throw identity
          return { identity, authenticatedAtMs: AUTHENTICATED_AT_MS }
        },
      },
    },
  })
  await deps.people.add(ORGANIZATION.id, { email: ann.email, role: 'owner', createdBy: '' })
  const get = (url: string, cookie = '') => ask(url, {
    remoteAddress: '10.0.0.1', headers: { cookie, 'x-forwarded-proto': 'https' },
  })
  const start = async (query = '') => {
    const { headers, cookies } = await get(`/sign-in/start${query}`)
    return { location: headers.location, cookie: cookies[0] }
  }
  const complete = (flow: string | undefined, more = '') =>
    get('/sign-in/complete?code=c&state=s', `__Host-sign-in=${flow}${more}`)
  return { deps, get, start, complete }
}

describe('the start of a sign-in', () => {
  it('redirects to the provider and binds the browser by a cookie for ten minutes', async () => {
    const { start } = await open()
    expect(await start()).toMatchObject({
      location: 'https://login.example/authorize',
      cookie: {
        name: '__Host-sign-in',
        httpOnly: true,
        sameSite: 'Strict',
        secure: true,
        path: '/',
        maxAge: 600,
      },
    })
  })

  it('does not exist without a provider, and links are explained', async () => {
    const { ask } = openPage({ deps: { supportUrl: 'mailto:a@b.example' } })
    expect((await ask('/sign-in/start')).statusCode).toBe(404)
    expect((await ask('/sign-in')).body).toContain('href="mailto:a@b.example">Ask for a link')
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
    const { deps, start, complete } = await open()
    const old = await deps.sessions.create({ kind: 'operator' })
    const { cookie } = await start('?again=yes&back=%2Ftest%2Fkeys')
    const answer = await complete(cookie?.value, `; __Host-session=${old.id}`)
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
      authenticatedAtMs: AUTHENTICATED_AT_MS,
      subject: {
        kind: 'customer', orgId: ORGANIZATION.id, person: { id: person?.id, generation: 0 },
      },
    })
  })

  it.each([
    ['/live/keys', '/live/keys'],
    ['https://evil.example/live/keys', '/live/overview'],
    ['//evil.example', '/live/overview'],
    ['/live/keys/../../x', '/live/overview'],
  ])('leads from %s to %s, whatever the address or the cookie says', async (back, path) => {
    const { start, complete } = await open()
    const { cookie } = await start(`?back=${encodeURIComponent(back)}`)
    const flow = { state: 's', nonce: 'n', verifier: 'v', back }
    const forged = Buffer.from(JSON.stringify(flow)).toString('base64url')
    for (const value of [cookie?.value, forged]) {
      expect((await complete(value)).headers.location).toBe(path)
    }
  })

  it('needs the cookie of its start', async () => {
    expect((await (await open()).complete('x')).statusCode).toBe(403)
  })

  it.each([
    ['a stranger, whose address is escaped', { ...ann, email: '<b>@example.com' }, 403,
      'You are not a member &lt;b&gt;@example.com is not a member of an organization here'],
    ['a stranger without a verified address', { ...ann, email: '' }, 403,
      'does not confirm your e-mail address'],
    ['a failed sign-in', new SignInError('rejected', 'x'), 403, 'The sign-in did not succeed'],
    ['a provider that is down', new SignInError('unavailable', 'x'), 503,
      'The sign-in provider does not answer'],
  ])('makes no session for %s', async (_what, identity, status, text) => {
    const { start, complete } = await open(identity)
    const { statusCode, body, cookies } = await complete((await start()).cookie?.value)
    expect([statusCode, cookies.map(({ name }) => name)]).toEqual([status, ['__Host-sign-in']])
    expect(textOf(body)).toContain(text)
  })
})

describe('a person of two organizations', () => {
  /** Signed in to the first one. */
  async function openAccount () {
    const { deps, signIn } = openPage()
    for (const orgId of [ORGANIZATION.id, 'org_2']) {
      await deps.people.add(orgId, { email: ann.email, role: 'owner', createdBy: '' })
    }
    const [membership] = await deps.people.membershipsOf(ann)
    const { id = '', generation = 0 } = membership?.person ?? {}
    const browser = await signIn(
      { kind: 'customer', orgId: ORGANIZATION.id, person: { id, generation } }, 1_000)
    return { deps, ...browser }
  }

  it('keeps the time of the authentication in the other one, and opens no third one', async () => {
    const { deps, send, session } = await openAccount()
    const refused = await send('/live/account/organization', { org: 'org_3' })
    expect([refused.statusCode, refused.cookies]).toEqual([404, []])
    const { cookies: [cookie] } = await send('/live/account/organization', { org: 'org_2' })
    expect(await deps.sessions.find(cookie?.value ?? '')).toMatchObject({
      subject: { orgId: 'org_2' }, authenticatedAtMs: session.authenticatedAtMs,
    })
  })

  it('chooses one after the sign-in, and stays there after a new authentication', async () => {
    const { deps, start, complete } = await open()
    await deps.people.add('org_2', { email: ann.email, role: 'finance', createdBy: '' })
    const { cookie } = await start('?back=%2Flive%2Fpeople')
    expect((await complete(cookie?.value)).headers.location).toBe('/live/account')
    for (const orgId of [ORGANIZATION.id, 'org_2']) {
      const { id } = await deps.sessions.create({ kind: 'customer', orgId })
      const { headers, cookies } = await complete(cookie?.value, `; __Host-session=${id}`)
      expect(headers.location).toBe('/live/people')
      expect(await deps.sessions.find(cookies[1]?.value ?? ''))
        .toMatchObject({ subject: { orgId } })
    }
  })

  it('ends the sessions in both at once', async () => {
    const { deps, send } = await openAccount()
    expect((await send('/live/account/sign-out-everywhere')).statusCode).toBe(303)
    const people = [await deps.people.list(ORGANIZATION.id), await deps.people.list('org_2')].flat()
    expect(people.map(({ generation }) => generation)).toEqual([1, 1])
  })
})
