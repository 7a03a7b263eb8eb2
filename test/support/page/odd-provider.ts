import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What the provider does wrong with the next sign-in, by the part of its answer. */
export type Oddity = {
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

/** A form that the token endpoint received, and how the client authenticated. */
type TokenRequest = { readonly form: URLSearchParams, readonly authorization: string }

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const newKey = () => generateKeyPairSync('rsa', { modulusLength: 2_048 })

/**
 * An OpenID provider that issues a token for every code, and does wrong what a test asks for.
 * `requests` are the forms that its token endpoint received.
 */
export async function startOddProvider (clientId: string, port = 0) {
  const [own, foreign] = [newKey(), newKey()]
  const state = { oddity: {} as Oddity, nonce: '' }
  const requests: TokenRequest[] = []
  const issuerOf = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const tokens = () => {
    const { oddity, nonce } = state
    const nowS = Math.floor(Date.now() / 1_000)
    const claims = {
      iss: issuerOf(),
      sub: 'ann-1',
      aud: clientId,
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
    '/.well-known/openid-configuration': () => metadataOf(issuerOf()),
    '/keys': () => ({
      keys: [{ ...own.publicKey.export({ format: 'jwk' }), use: 'sig', kid: '1', alg: 'RS256' }],
    }),
    '/token': tokens,
    '/me': () => ({ sub: 'ann-1', ...state.oddity.userInfo }),
  }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const answer = answers[request.url ?? '']
    const isToken = request.url === '/token'
    if (isToken) {
      requests.push({
        form: new URLSearchParams(Buffer.concat(chunks).toString()),
        authorization: request.headers.authorization ?? '',
      })
    }
    const status = (isToken ? state.oddity.tokenStatus : undefined) ?? (answer ? 200 : 404)
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(status === 200 ? answer?.() : { error: 'invalid_grant' }))
  })
  await new Promise<void>(resolve => { server.listen(port, '127.0.0.1', resolve) })
  return {
    issuer: issuerOf(),
    requests,
    /** How to answer from now on; `nonce` is that of the sign-in under way. */
    answer: (oddity: Oddity, nonce: string) => Object.assign(state, { oddity, nonce }),
    stop: async () => {
      server.closeAllConnections()
      await new Promise(resolve => { server.close(resolve) })
    },
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
