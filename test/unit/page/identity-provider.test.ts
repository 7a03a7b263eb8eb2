import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { pageConfig } from '../../../services/page/config.ts'
import {
  createIdentityProvider, SignInError, type SignInFlow,
} from '../../../services/page/identity-provider.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { ROOT_KEY_SETTINGS } from '../../support/keys/organization-keys.ts'
import { MESSAGE_KEY_ENV } from '../../support/keys/signed.ts'
import { startReceiver } from '../../support/webhooks/receiver.ts'

/** What the provider does wrong with the next sign-in, by the part of its answer. */
type Oddity = {
  readonly claims?: Readonly<Record<string, unknown>>
  /** Signs with a key that is not published. */
  readonly foreignKey?: true
  /** Algorithm `none`, without a signature. */
  readonly unsigned?: true
  /** HTTP status of the token endpoint. */
  readonly tokenStatus?: number
  readonly userInfo?: Readonly<Record<string, unknown>>
  readonly noIdToken?: true
}

const CLIENT = { clientId: 'page', pageUrl: 'https://page.example' }
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const newKey = () => generateKeyPairSync('rsa', { modulusLength: 2_048 })

/** An OpenID provider that issues a token for every code, and does wrong what a test asks for. */
async function startOddProvider (atPort = 0) {
  const [own, foreign] = [newKey(), newKey()]
  const state = { oddity: {} as Oddity, nonce: '' }
  const tokens = () => {
    const { oddity, nonce } = state
    const nowS = Math.floor(Date.now() / 1_000)
    const claims = {
      iss: issuer,
      sub: 'ann-1',
      aud: CLIENT.clientId,
      iat: nowS,
      exp: nowS + 60,
      nonce,
      ...oddity.claims,
    }
    const idToken = idTokenOf(claims, oddity.unsigned
      ? undefined
      : (oddity.foreignKey ? foreign : own).privateKey)
    return {
      access_token: 'access', token_type: 'Bearer', ...!oddity.noIdToken && { id_token: idToken },
    }
  }
  const answers: Readonly<Record<string, () => object>> = {
    '/.well-known/openid-configuration': () => metadataOf(issuer),
    '/keys': () => ({
      keys: [{ ...own.publicKey.export({ format: 'jwk' }), use: 'sig', kid: '1', alg: 'RS256' }],
    }),
    '/token': tokens,
    '/me': () => ({ sub: 'ann-1', ...state.oddity.userInfo }),
  }
  const { port, received, stop } = await startReceiver((response, { path }) => {
    const isToken = path === '/token'
    const status = (isToken ? state.oddity.tokenStatus : undefined) ?? (answers[path] ? 200 : 404)
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(status === 200 ? answers[path]?.() : { error: 'invalid_grant' }))
  }, '127.0.0.1', atPort)
  const issuer = `http://127.0.0.1:${port}`
  return {
    issuer,
    /** The form that its token endpoint received last, and how the client authenticated. */
    tokenRequest: () => {
      const { body = '', headers } = received.findLast(({ path }) => path === '/token') ?? {}
      return { form: new URLSearchParams(body), authorization: headers?.authorization ?? '' }
    },
    /** How to answer from now on; `nonce` is that of the sign-in under way. */
    answer: (oddity: Oddity, nonce: string) => Object.assign(state, { oddity, nonce }),
    stop,
  }
}

const metadataOf = (issuer: string) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/keys`,
  userinfo_endpoint: `${issuer}/me`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256', 'none'],
})

function idTokenOf (claims: object, key: KeyObject | undefined): string {
  const header = key === undefined ? { alg: 'none' } : { alg: 'RS256', kid: '1' }
  const content = `${encode(header)}.${encode(claims)}`
  const signature = key === undefined
    ? ''
    : sign('sha256', Buffer.from(content), key).toString('base64url')
  return `${content}.${signature}`
}

const HOUR_S = 3_600
const nowS = () => Math.floor(Date.now() / 1_000)

const odd = await startOddProvider()
const provider = createIdentityProvider({ ...CLIENT, issuer: odd.issuer })

/** Signs in with a provider that does something wrong. */
async function signIn (
  oddity: Oddity, { again = false, ...changed }: Partial<SignInFlow> = {}, at = provider
) {
  const { flow } = await at.start({ back: '/live/keys', again })
  odd.answer(oddity, flow.nonce)
  const query = new URLSearchParams({ code: 'c', state: flow.state, iss: odd.issuer })
  return await at.complete(query, { ...flow, ...changed })
}
const failure = async (oddity: Oddity, changed?: Partial<SignInFlow>) =>
  await signIn(oddity, changed).then(() => 'signed in', (error: unknown) =>
    error instanceof SignInError ? `${error.kind}: ${error.message}` : String(error))

describe('the request to the provider', () => {
  it('has state, nonce and the challenge of PKCE, which differ each time', async () => {
    const start = (again: boolean) => provider.start({ back: '/live/keys', again })
    const [first, second] = [await start(false), await start(true)]
    const queryOf = ({ url }: { readonly url: string }) =>
      Object.fromEntries(new URL(url).searchParams)
    expect(queryOf(first)).toEqual({
      client_id: 'page',
      response_type: 'code',
      redirect_uri: 'https://page.example/sign-in/callback',
      scope: 'openid email',
      state: first.flow.state,
      nonce: first.flow.nonce,
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
      // Asks for auth_time, without another authentication.
      max_age: '31536000',
    })
    for (const name of ['state', 'nonce', 'verifier'] as const) {
      expect(first.flow[name]).not.toBe(second.flow[name])
    }
    // When another authentication is needed.
    expect(queryOf(second)).toMatchObject({ prompt: 'login', max_age: '300' })
  })

  it('sends the verifier, and the secret of the client in a header if there is one', async () => {
    await signIn({})
    const open = odd.tokenRequest()
    expect(open.form.get('code_verifier')).toMatch(/^[\w-]{43}$/)
    expect([open.form.get('client_id'), open.authorization]).toEqual(['page', ''])
    const secret = createIdentityProvider({
      ...CLIENT, issuer: odd.issuer, clientSecret: 'its secret',
    })
    await signIn({}, {}, secret)
    const { authorization, form } = odd.tokenRequest()
    expect(Buffer.from(authorization.replace('Basic ', ''), 'base64').toString())
      .toBe('page:its+secret')
    expect(form.has('client_secret')).toBe(false)
  })
})

describe('a sign-in', () => {
  it('says who it is, with a verified address only', async () => {
    const identity = (more: object) => ({ issuer: odd.issuer, subject: 'ann-1', ...more })
    const claims = { email: 'ann@example.com', email_verified: true }
    expect(await signIn({ claims }))
      .toEqual({ identity: identity({ email: 'ann@example.com' }), authenticatedAtMs: 0 })
    for (const isVerified of [false, undefined, 'true']) {
      expect(await signIn({ claims: { ...claims, email_verified: isVerified } }))
        .toMatchObject({ identity: identity({ email: '' }) })
    }
  })

  it('asks for the address where the ID token has none', async () => {
    expect(await signIn({ userInfo: { email: 'ann@example.com', email_verified: true } }))
      .toMatchObject({ identity: { email: 'ann@example.com' } })
    expect(await failure({ userInfo: { sub: 'another', email: 'ann@example.com' } }))
      .toMatch(/^rejected: /)
  })

  it('has the time of the authentication, never one in the future', async () => {
    const at = nowS() - 60
    expect(await signIn({ claims: { auth_time: at } }))
      .toMatchObject({ authenticatedAtMs: at * 1_000 })
    const { authenticatedAtMs } = await signIn({ claims: { auth_time: nowS() + HOUR_S } })
    expect(authenticatedAtMs).toBeLessThanOrEqual(Date.now())
  })
})

describe('a sign-in is rejected', () => {
  const cases: [string, Oddity, Partial<SignInFlow>?][] = [
    ['with another state', {}, { state: 'another' }],
    ['with the nonce of another sign-in', {}, { nonce: 'another' }],
    ['without a nonce', { claims: { nonce: undefined } }],
    ['without an ID token', { noIdToken: true }],
    ['with an ID token that is not signed', { unsigned: true }],
    ['with the signature of another key', { foreignKey: true }],
    ['with an ID token that has expired', { claims: { exp: 1 } }],
    ['with an ID token of another issuer', { claims: { iss: 'https://other.example' } }],
    ['with an ID token for another client', { claims: { aud: 'other' } }],
    ['when the code is used up', { tokenStatus: 400 }],
    ['without the time of a new authentication', {}, { again: true }],
    ['when a new authentication is old', { claims: { auth_time: nowS() - HOUR_S } },
      { again: true }],
  ]

  it.each(cases)('%s', async (_what, oddity, changed) => {
    expect(await failure(oddity, changed)).toMatch(/^rejected: /)
  })

  it('with a reason that has no data of the person', async () => {
    const claims = { email: 'ann@example.com', email_verified: true, exp: 1 }
    expect(await failure({ claims })).not.toContain('ann')
    expect(await failure({ tokenStatus: 400 }))
      .toBe('rejected: the provider answered invalid_grant')
  })

  it('when the provider says so', async () => {
    const { flow } = await provider.start({ back: '/', again: false })
    const query = new URLSearchParams({
      error: 'access_denied', state: flow.state, iss: odd.issuer,
    })
    await expect(provider.complete(query, flow))
      .rejects.toThrow('the provider answered access_denied')
  })
})

describe('a provider that is unavailable', () => {
  it('is reported as such, and found again once it answers', async () => {
    const { issuer, stop } = await startOddProvider()
    await stop()
    const late = createIdentityProvider({ ...CLIENT, issuer })
    const start = () => late.start({ back: '/', again: false })
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(start()).rejects.toMatchObject({ name: 'SignInError', kind: 'unavailable' })
    }
    await startOddProvider(Number(new URL(issuer).port))
    expect((await start()).url).toContain(issuer)
    expect(await failure({ tokenStatus: 500 })).toMatch(/^unavailable: /)
  })

  it('is one with another issuer than configured, too', async () => {
    const wrong = createIdentityProvider({ ...CLIENT, issuer: `${odd.issuer}/other` })
    await expect(wrong.start({ back: '/', again: false }))
      .rejects.toMatchObject({ name: 'SignInError', kind: 'unavailable' })
  })

  it('gets no browser, a second after its last answer at the latest', async () => {
    const clock = { ms: 0 }
    const own = await startOddProvider()
    const page = createIdentityProvider({ ...CLIENT, issuer: own.issuer }, () => clock.ms)
    const start = () => page.start({ back: '/', again: false })
    await start()
    await own.stop()
    clock.ms = 1_000
    await start()
    clock.ms = 1_001
    await expect(start()).rejects.toMatchObject({ name: 'SignInError', kind: 'unavailable' })
  })
})

it.each([
  [true, ['http://localhost:9000', 'http://127.0.0.1/x', 'http://[::1]:1', 'https://a.example']],
  [false, ['http://login.example', 'http://localhost.evil.example', 'ftp://x']],
])('the issuer is accepted (%s), as plain HTTP on this machine only: %o', (isAllowed, issuers) => {
  for (const OIDC_ISSUER of issuers) {
    const load = () => loadConfig(pageConfig, {
      ...MESSAGE_KEY_ENV,
      ...ROOT_KEY_SETTINGS,
      REDIS_STATE_URL: 'redis://127.0.0.1:1',
      CLICKHOUSE_URL: 'http://127.0.0.1:1',
      OIDC_CLIENT_ID: 'page',
      PAGE_URL: 'https://page.example',
      OIDC_ISSUER,
    })
    if (isAllowed) expect(load().OIDC_ISSUER).toBe(OIDC_ISSUER)
    else expect(load).toThrow('OIDC_ISSUER')
  }
})
