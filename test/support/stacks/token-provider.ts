import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import { Provider } from 'oidc-provider'
import { createMemoryAdapter } from 'oidc-provider/lib/adapters/memory_adapter.js'
import { listen } from '../listen.ts'

/** The audience of its tokens, which brokers expect. */
export const TOKEN_AUDIENCE = 'urn:kafka'

export type TokenProvider = Awaited<ReturnType<typeof startTokenProvider>>

/**
 * Settings of a broker that make it listen at one more address, where clients show a token of the
 * provider. Of a setting that is there twice the last one counts.
 */
export function oauthListener (
  { address, open, controller, jwksUrl }:
  Readonly<Record<'address' | 'open' | 'controller' | 'jwksUrl', string>>
): string {
  const oauth = 'org.apache.kafka.common.security.oauthbearer'
  const listener = 'listener.name.sasl_plaintext.oauthbearer'
  const listeners = `PLAINTEXT://${open},SASL_PLAINTEXT://${address}`
  const settings = {
    listeners: `${listeners},CONTROLLER://${controller}`,
    'advertised.listeners': listeners,
    'listener.security.protocol.map':
      'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT',
    'sasl.enabled.mechanisms': 'OAUTHBEARER',
    [`${listener}.sasl.jaas.config`]: `${oauth}.OAuthBearerLoginModule required;`,
    [`${listener}.sasl.server.callback.handler.class`]:
      `${oauth}.OAuthBearerValidatorCallbackHandler`,
    [`${listener}.sasl.oauthbearer.jwks.endpoint.url`]: jwksUrl,
    [`${listener}.sasl.oauthbearer.expected.audience`]: TOKEN_AUDIENCE,
  }
  return Object.entries(settings).map(([name, value]) => `${name}=${value}\n`).join('')
}

/** An OpenID provider on this machine that issues signed tokens to one client. */
export async function startTokenProvider (
  client: { readonly id: string, readonly secret: string }
) {
  const server = createServer((request, response) => { provider.callback()(request, response) })
  const issuer = `http://127.0.0.1:${await listen(server)}`
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  let issued = 0
  const provider = new Provider(issuer, {
    clients: [{
      client_id: client.id,
      client_secret: client.secret,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_post',
    }],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
    adapter: createMemoryAdapter(),
    ttl: { ClientCredentials: 600 },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => TOKEN_AUDIENCE,
        getResourceServerInfo: () => ({
          scope: 'kafka', audience: TOKEN_AUDIENCE, accessTokenFormat: 'jwt' as const,
        }),
      },
    },
  })
  provider.on('client_credentials.issued', () => { issued += 1 })
  return {
    tokenUrl: `${issuer}/token`,
    jwksUrl: `${issuer}/jwks`,
    /** How many tokens it has issued. */
    issued: () => issued,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
