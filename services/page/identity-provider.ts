import * as oidc from 'openid-client'
import type { Identity } from '../accounts/people.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import { readBody } from '../runtime/platform/peer-guards.ts'
import type { PageConfig } from './config.ts'

/** What a browser keeps, in a cookie, until it returns from the provider. */
export type SignInFlow = {
  readonly state: string
  readonly nonce: string
  /** Of PKCE. */
  readonly verifier: string
  /** The page to return to. */
  readonly back: string
  /** The person must authenticate again. */
  readonly again: boolean
}

/** A person who has just signed in, and when: Unix ms, 0 if the provider does not say. */
export type SignedInPerson = { readonly identity: Identity, readonly authenticatedAtMs: number }

/** A failed sign-in. The message has no data of the person, because it is logged. */
export class SignInError extends Error {
  override readonly name = 'SignInError'
  readonly kind: 'unavailable' | 'rejected'

  constructor (kind: SignInError['kind'], message: string, cause?: unknown) {
    super(message, { cause })
    this.kind = kind
  }
}

export type IdentityProvider = ReturnType<typeof createIdentityProvider>

export type ProviderSettings = {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret?: string
  readonly pageUrl: string
}

const TIMEOUT_S = 10
/** Of each response of the provider: its metadata, its keys, tokens, or user information. */
const MAX_RESPONSE_BYTES = 1_024 * 1_024
/**
 * How old a discovery may be when a sign-in begins: a browser is sent to a provider that has just
 * answered, while requests to this page cause at most one to the provider each second.
 */
const START_MS = 1_000
/** How old it may be when a sign-in completes, so that the provider may change its endpoints. */
const COMPLETE_MS = 600_000
/** The maximum age of the authentication when a person has to authenticate again. */
const MAX_AGE_S = 300
/**
 * The maximum age of the authentication otherwise: longer than any session at a provider. With a
 * maximum age a provider must send `auth_time`, so that a person who has just authenticated need
 * not do it again for keys and people.
 */
const ANY_AGE_S = 365 * 86_400

/** The settings of the provider; undefined when none is configured. */
export function readProviderSettings (config: PageConfig): ProviderSettings | undefined {
  const {
    OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret,
    PAGE_URL: pageUrl,
  } = config
  if (issuer === undefined || clientId === undefined || pageUrl === undefined) return undefined
  return { issuer, clientId, clientSecret, pageUrl }
}

/**
 * The OpenID provider that people sign in with: authorization code flow with PKCE, state and nonce.
 * Its methods throw SignInError.
 */
export function createIdentityProvider (
  settings: ProviderSettings, now: () => number = Date.now
) {
  const callback = `${settings.pageUrl}/sign-in/callback`
  const discovered = createDiscovery(settings, now)
  return {
    /** Where to send a browser, and what it has to keep. */
    async start (
      { back, again }: Pick<SignInFlow, 'back' | 'again'>
    ): Promise<{ readonly url: string, readonly flow: SignInFlow }> {
      const config = await discovered(START_MS)
      const flow = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier: oidc.randomPKCECodeVerifier(),
        back,
        again,
      }
      const url = oidc.buildAuthorizationUrl(config, {
        redirect_uri: callback,
        scope: 'openid email',
        state: flow.state,
        nonce: flow.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(flow.verifier),
        code_challenge_method: 'S256',
        max_age: String(again ? MAX_AGE_S : ANY_AGE_S),
        ...again && { prompt: 'login' },
      })
      return { url: url.href, flow }
    },

    /** Who the browser is that has returned with this query. */
    async complete (query: URLSearchParams, flow: SignInFlow): Promise<SignedInPerson> {
      try {
        const config = await discovered(COMPLETE_MS)
        const tokens = await oidc.authorizationCodeGrant(config, new URL(`${callback}?${query}`), {
          expectedState: flow.state,
          expectedNonce: flow.nonce,
          pkceCodeVerifier: flow.verifier,
          ...flow.again && { maxAge: MAX_AGE_S },
        })
        return await readPerson(config, tokens, now())
      } catch (error) {
        if (error instanceof SignInError) throw error
        const { code, cause } = error as { readonly code?: string, readonly cause?: unknown }
        // The provider is unreachable, too slow, or answers with an error of its own.
        const isUnavailable = isInfrastructure(error) || code === 'OAUTH_TIMEOUT' ||
          (cause instanceof Response && cause.status >= 500)
        throw new SignInError(
          isUnavailable ? 'unavailable' : 'rejected', explainFailure(error), error)
      }
    },
  }
}

type Tokens = Awaited<ReturnType<typeof oidc.authorizationCodeGrant>>

async function readPerson (
  config: oidc.Configuration, tokens: Tokens, nowMs: number
): Promise<SignedInPerson> {
  const claims = tokens.claims()
  if (claims === undefined) throw new SignInError('rejected', 'the provider sent no ID token')
  const { iss: issuer, sub: subject, auth_time: authTime = 0 } = claims
  // Providers may return the address only at this endpoint.
  const { email, email_verified: isVerified } = claims.email === undefined
    ? await oidc.fetchUserInfo(config, tokens.access_token, subject)
    : claims
  return {
    identity: {
      issuer, subject, email: typeof email === 'string' && isVerified === true ? email : '',
    },
    // The clock of the provider may be ahead.
    authenticatedAtMs: Math.min(authTime * 1_000, nowMs),
  }
}

function createDiscovery (settings: ProviderSettings, now: () => number) {
  let latest: { readonly atMs: number, readonly config: Promise<oidc.Configuration> } | undefined
  return (maxAgeMs: number): Promise<oidc.Configuration> => {
    if (latest === undefined || now() - latest.atMs > maxAgeMs) {
      const config = discover(settings).catch((error: unknown) => {
        throw new SignInError('unavailable', explainFailure(error), error)
      })
      latest = { atMs: now(), config }
      config.catch(() => { latest = undefined })
    }
    return latest.config
  }
}

async function discover (
  { issuer, clientId, clientSecret }: ProviderSettings
): Promise<oidc.Configuration> {
  const url = new URL(issuer)
  const authentication = clientSecret === undefined
    ? oidc.None()
    : oidc.ClientSecretBasic(clientSecret)
  // The signature counts as well as the connection to the provider.
  const execute = [oidc.enableNonRepudiationChecks]
  if (url.protocol === 'http:') execute.push(oidc.allowInsecureRequests)
  return await oidc.discovery(url, clientId, undefined, authentication, {
    execute, timeout: TIMEOUT_S, [oidc.customFetch]: fetchBounded,
  })
}

/** Fetches a response, the whole body within the time and size limits. */
async function fetchBounded (
  url: string, options: Parameters<oidc.CustomFetch>[1]
): Promise<Response> {
  const response = await fetch(url, options as RequestInit)
  const body = await readBody(response, MAX_RESPONSE_BYTES)
  if (body === undefined) {
    throw new TypeError(`a response of more than ${MAX_RESPONSE_BYTES} bytes`)
  }
  const { status, statusText, headers } = response
  return new Response(body.length > 0 ? new Uint8Array(body) : null, {
    status, statusText, headers,
  })
}

/** The fixed texts of the library, and the error code that the provider sent. */
function explainFailure (error: unknown): string {
  if (!(error instanceof Error)) return 'unknown error'
  const { error: code } = error as { readonly error?: unknown }
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
  return typeof code === 'string' ? `the provider answered ${code}` : `${error.message}${cause}`
}
