import { describe, expect, it } from 'vitest'
import type { Identity } from '../../../services/accounts/people.ts'
import { openPage, ORGANIZATION } from '../../support/page/page-doubles.ts'

const ann: Identity = { issuer: 'https://login.example', subject: '1', email: 'ann@example.com' }
const AUTHENTICATED_AT_MS = 5

/** A page behind HTTPS whose provider recognizes everybody as a person. */
async function open (identity = ann) {
  const { deps, ask } = openPage({
    deps: {
      identityProvider: {
        start: async wanted => ({
          url: 'https://login.example/authorize',
          flow: { state: 's', nonce: 'n', verifier: 'v', ...wanted },
        }),
        complete: async () => ({ identity, authenticatedAtMs: AUTHENTICATED_AT_MS }),
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

  it('leads to no other site, whatever the cookie says, and needs a readable one', async () => {
    const { complete } = await open()
    const flow = { state: 's', nonce: 'n', verifier: 'v', back: 'https://evil.example/live/keys' }
    const value = Buffer.from(JSON.stringify(flow)).toString('base64url')
    expect((await complete(value)).headers.location).toBe('/live/overview')
    expect((await complete('x')).statusCode).toBe(403)
  })

  it('makes no session for a stranger, whose address is escaped', async () => {
    const { start, complete } = await open({ ...ann, email: '<b>@example.com' })
    const answer = await complete((await start()).cookie?.value)
    expect(answer.body).not.toContain('<b>')
    expect(answer.cookies.map(({ name }) => name)).toEqual(['__Host-sign-in'])
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

  it('ends the sessions in both at once', async () => {
    const { deps, send } = await openAccount()
    expect((await send('/live/account/sign-out-everywhere')).statusCode).toBe(303)
    const people = [await deps.people.list(ORGANIZATION.id), await deps.people.list('org_2')].flat()
    expect(people.map(({ generation }) => generation)).toEqual([1, 1])
  })
})
