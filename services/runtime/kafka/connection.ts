import kafkajs from 'kafkajs'
import { readFileSync } from 'node:fs'
import type { KafkaConfig, OauthbearerProviderResponse, SASLOptions } from 'kafkajs'
import { isDenial, isUntrusted } from '../platform/errors.ts'

/** The OpenID provider gave no token; kafkajs retries it as a broker that does not answer. */
class TokenError extends kafkajs.KafkaJSConnectionError {
  constructor (reason: string) {
    super(`no token from KAFKA_OAUTH_TOKEN_URL (${reason}): check it, KAFKA_OAUTH_CLIENT_ID and ` +
      'KAFKA_OAUTH_CLIENT_SECRET')
  }
}

/** The protocol error name, such as `MESSAGE_TOO_LARGE`, of an error or its causes; '' without. */
export function kafkaTypeOf (error: unknown): string {
  if (!(error instanceof Error)) return ''
  return 'type' in error && typeof error.type === 'string' ? error.type : kafkaTypeOf(error.cause)
}

/** Errors that kafkajs marks as final, although a response was only lost or late. */
const TRANSIENT_NAMES = ['KafkaJSGroupCoordinatorNotFound', 'KafkaJSLockTimeout']

/** A failed reauthentication: a new connection authenticates from the start. */
const TRANSIENT_SASL_TYPE = 'ILLEGAL_SASL_STATE'

/**
 * Whether a retry may succeed, after a lost connection for example. The error of kafkajs after its
 * last retry is final, but its cause may be transient.
 */
export function isTransient (error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (TRANSIENT_NAMES.includes(error.name)) return true
  if ('type' in error && error.type === TRANSIENT_SASL_TYPE) return true
  return ('retriable' in error && error.retriable === true) || isTransient(error.cause)
}

/**
 * What an operator must fix when authentication or authorization failed, or the certificate is not
 * trusted; undefined for all other errors.
 */
export function accessErrorOf (error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  if (error instanceof TokenError) return error.message
  if (error.name === 'KafkaJSSASLAuthenticationError') {
    return 'Kafka authentication failed: check KAFKA_SASL_MECHANISM, the client at ' +
      'KAFKA_OAUTH_TOKEN_URL if it is oauthbearer, else KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD'
  }
  if (isUntrusted(error)) {
    return 'The certificate of Kafka is not trusted: set NODE_EXTRA_CA_CERTS to the file of its ' +
      'CA, and use host names of the certificate in KAFKA_BROKERS'
  }
  if ('type' in error && isDenial(String(error.type))) {
    return `Kafka authorization failed (${String(error.type)}): grant the missing ACL to ` +
      'the user of this service'
  }
  return accessErrorOf(error.cause)
}

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
