import { readFileSync } from 'node:fs'
import type { KafkaConfig, OauthbearerProviderResponse, SASLOptions } from 'kafkajs'
import { TokenError } from './errors.ts'

/** The settings of connections to the brokers. */
export type KafkaSettings = {
  readonly KAFKA_BROKERS: readonly string[]
  readonly KAFKA_TLS?: boolean | undefined
  readonly KAFKA_TLS_CERT_FILE?: string | undefined
  readonly KAFKA_TLS_KEY_FILE?: string | undefined
  readonly KAFKA_SASL_MECHANISM?:
    'plain' | 'scram-sha-256' | 'scram-sha-512' | 'oauthbearer' | undefined
  readonly KAFKA_SASL_USERNAME?: string | undefined
  readonly KAFKA_SASL_PASSWORD?: string | undefined
  readonly KAFKA_OAUTH_TOKEN_URL?: string | undefined
  readonly KAFKA_OAUTH_CLIENT_ID?: string | undefined
  readonly KAFKA_OAUTH_CLIENT_SECRET?: string | undefined
  readonly KAFKA_OAUTH_SCOPE?: string | undefined
  readonly TOPIC_PREFIX?: string | undefined
}

/** The brokers, with TLS and authentication if configured. */
export type KafkaConnection = {
  readonly brokers: readonly string[]
  readonly ssl?: NonNullable<KafkaConfig['ssl']>
  readonly sasl?: SASLOptions
  /** What the names of topics and groups begin with on the brokers. */
  readonly prefix?: string | undefined
}

/**
 * The connection of a configuration. Certificates are checked against the CAs of Node and of
 * NODE_EXTRA_CA_CERTS. `loadConfig` checks that a SASL mechanism has what it needs.
 */
export function kafkaConnectionOf (settings: KafkaSettings): KafkaConnection {
  const {
    KAFKA_BROKERS: brokers, KAFKA_TLS: usesTls = false, KAFKA_TLS_CERT_FILE: certFile = '',
    KAFKA_TLS_KEY_FILE: keyFile = '', TOPIC_PREFIX: prefix = '',
  } = settings
  // kafkajs copies these for each connection, so a certificate that was renewed is used from then.
  const certificate = {
    get cert () { return readFileSync(certFile) },
    get key () { return readFileSync(keyFile) },
  }
  const sasl = saslOf(settings)
  return {
    brokers,
    ...usesTls && { ssl: certFile === '' ? true : certificate },
    ...sasl && { sasl },
    ...prefix !== '' && { prefix },
  }
}

function saslOf (settings: KafkaSettings): SASLOptions | undefined {
  const { KAFKA_SASL_MECHANISM: mechanism } = settings
  if (mechanism === 'oauthbearer') {
    return { mechanism, oauthBearerProvider: tokenSource(settings) }
  }
  const { KAFKA_SASL_USERNAME: username, KAFKA_SASL_PASSWORD: password } = settings
  if (mechanism === undefined || username === undefined || password === undefined) return undefined
  return { mechanism, username, password } as SASLOptions
}

/** A token is not used so shortly before it expires. */
const TOKEN_MARGIN_MS = 30_000

/**
 * Gets tokens from an OpenID provider by client credentials (RFC 6749, 4.4); all connections share
 * one until it expires. Rejects while the provider does not answer or refuses the client.
 */
function tokenSource ({
  KAFKA_OAUTH_TOKEN_URL: url = '', KAFKA_OAUTH_CLIENT_ID: id = '',
  KAFKA_OAUTH_CLIENT_SECRET: secret = '', KAFKA_OAUTH_SCOPE: scope,
}: KafkaSettings): () => Promise<OauthbearerProviderResponse> {
  const fetchToken = async () => {
    // Few deployments use tokens, and every command connects to Kafka.
    const client = await import('openid-client')
    const issuer = new client.Configuration({ issuer: url, token_endpoint: url }, id, secret)
    if (url.startsWith('http:')) client.allowInsecureRequests(issuer)
    const answer = await client.clientCredentialsGrant(issuer, scope === undefined ? {} : { scope })
    untilMs = Date.now() + (answer.expires_in ?? 0) * 1_000 - TOKEN_MARGIN_MS
    return { value: answer.access_token }
  }
  let token: Promise<OauthbearerProviderResponse> | undefined
  let untilMs = Infinity
  return async () => {
    if (Date.now() >= untilMs) {
      token = undefined
      untilMs = Infinity
    }
    token ??= fetchToken().catch((failure: unknown) => {
      token = undefined
      const { error, code } = failure as { readonly error?: string, readonly code?: string }
      throw new TokenError(error ?? code ?? 'no answer')
    })
    return await token
  }
}

/** The options of kafkajs for a connection. */
export function kafkaOptionsOf (
  { brokers, ssl, sasl }: KafkaConnection
): Pick<KafkaConfig, 'brokers' | 'ssl' | 'sasl'> {
  return {
    brokers: [...brokers],
    ...ssl === undefined ? {} : { ssl },
    ...sasl === undefined ? {} : { sasl },
  }
}
