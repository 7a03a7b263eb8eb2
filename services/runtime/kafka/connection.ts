import kafkajs from 'kafkajs'
import type { KafkaConfig, OauthbearerProviderResponse, SASLOptions } from 'kafkajs'
import { certificateFiles, PasswordFile } from '../platform/config.ts'
import { isDenial, isUntrusted } from '../platform/errors.ts'

/** There is no token; kafkajs retries it as a broker that does not answer. */
class TokenError extends kafkajs.KafkaJSConnectionError {}

/** The protocol error name, such as `MESSAGE_TOO_LARGE`, of an error or its causes; '' without. */
export function kafkaErrorType (error: unknown): string {
  if (!(error instanceof Error)) return ''
  return 'type' in error && typeof error.type === 'string'
    ? error.type
    : kafkaErrorType(error.cause)
}

/** Errors that kafkajs marks as final, although a response was only lost or late. */
const TRANSIENT_NAMES = ['KafkaJSGroupCoordinatorNotFound', 'KafkaJSLockTimeout']

/**
 * A failed reauthentication: a new connection authenticates from the start. And the answer of a
 * coordinator that stops while a group joins.
 */
const TRANSIENT_TYPES = ['ILLEGAL_SASL_STATE', 'UNKNOWN']

/**
 * Whether a retry may succeed, after a lost connection for example. The error of kafkajs after its
 * last retry is final, but its cause may be transient.
 */
export function isTransient (error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (TRANSIENT_NAMES.includes(error.name)) return true
  if ('type' in error && TRANSIENT_TYPES.includes(String(error.type))) return true
  return ('retriable' in error && error.retriable === true) || isTransient(error.cause)
}

/**
 * What an operator must fix when authentication or authorization failed, or the certificate is not
 * trusted; undefined for all other errors.
 */
export function describeAccessError (error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  if (error instanceof TokenError) return error.message
  if (error.name === 'KafkaJSSASLAuthenticationError') {
    return 'Kafka authentication failed: check KAFKA_SASL_MECHANISM, the client at ' +
      'KAFKA_OAUTH_TOKEN_URL if it is oauthbearer, the policy of the role if it is aws-msk-iam, ' +
      'else KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD'
  }
  if (isUntrusted(error)) {
    return 'The certificate of Kafka is not trusted: set NODE_EXTRA_CA_CERTS to the file of its ' +
      'CA, and use host names of the certificate in KAFKA_BROKERS'
  }
  if ('type' in error && isDenial(String(error.type))) {
    return `Kafka authorization failed (${String(error.type)}): grant the missing ACL to ` +
      'the user of this service'
  }
  return describeAccessError(error.cause)
}

/** The settings of connections to the brokers. */
export type KafkaSettings = {
  readonly KAFKA_BROKERS: readonly string[]
  readonly KAFKA_TLS?: boolean | undefined
  readonly KAFKA_TLS_CERT_FILE?: string | undefined
  readonly KAFKA_TLS_KEY_FILE?: string | undefined
  readonly KAFKA_SASL_MECHANISM?:
    'plain' | 'scram-sha-256' | 'scram-sha-512' | 'oauthbearer' | 'aws-msk-iam' | undefined
  readonly KAFKA_SASL_USERNAME?: string | undefined
  readonly KAFKA_SASL_PASSWORD?: string | undefined
  readonly KAFKA_SASL_PASSWORD_FILE?: string | undefined
  readonly KAFKA_OAUTH_TOKEN_URL?: string | undefined
  readonly KAFKA_OAUTH_CLIENT_ID?: string | undefined
  readonly KAFKA_OAUTH_CLIENT_SECRET?: string | undefined
  readonly KAFKA_OAUTH_SCOPE?: string | undefined
  readonly KAFKA_AWS_REGION?: string | undefined
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
export function toKafkaConnection (settings: KafkaSettings): KafkaConnection {
  const {
    KAFKA_BROKERS: brokers, KAFKA_TLS: usesTls = false, KAFKA_TLS_CERT_FILE: certFile = '',
    KAFKA_TLS_KEY_FILE: keyFile = '', TOPIC_PREFIX: prefix = '',
  } = settings
  // kafkajs copies these for each connection, so a certificate that was renewed is used from then.
  const certificate = certificateFiles(certFile, keyFile)
  const sasl = toSasl(settings)
  return {
    brokers,
    ...usesTls && { ssl: certFile === '' ? true : certificate },
    ...sasl && { sasl },
    ...prefix !== '' && { prefix },
  }
}

function toSasl (settings: KafkaSettings): SASLOptions | undefined {
  const { KAFKA_SASL_MECHANISM: mechanism } = settings
  if (mechanism === 'oauthbearer') {
    return { mechanism, oauthBearerProvider: sharedTokens(openIdTokens(settings)) }
  }
  if (mechanism === 'aws-msk-iam') {
    const { KAFKA_AWS_REGION: region = '' } = settings
    return { mechanism: 'oauthbearer', oauthBearerProvider: sharedTokens(() => mskToken(region)) }
  }
  const {
    KAFKA_SASL_USERNAME: username, KAFKA_SASL_PASSWORD: password, KAFKA_SASL_PASSWORD_FILE: path,
  } = settings
  if (mechanism === undefined || username === undefined) return undefined
  if (path !== undefined) {
    const file = new PasswordFile(path)
    return { mechanism, username, get password () { return file.toString() } } as SASLOptions
  }
  if (password === undefined) return undefined
  return { mechanism, username, password } as SASLOptions
}

type Token = { readonly value: string, readonly expiresAtMs: number }

/** A token is not used so shortly before it expires. */
const TOKEN_MARGIN_MS = 30_000

/** One token for all connections until it expires. Rejects with TokenError while there is none. */
function sharedTokens (fetchToken: () => Promise<Token>) {
  let token: Promise<Token> | undefined
  let untilMs = Infinity
  return async (): Promise<OauthbearerProviderResponse> => {
    if (Date.now() >= untilMs) {
      token = undefined
      untilMs = Infinity
    }
    token ??= fetchToken().then(fetched => {
      untilMs = fetched.expiresAtMs - TOKEN_MARGIN_MS
      return fetched
    }, (error: unknown) => {
      token = undefined
      throw error
    })
    return { value: (await token).value }
  }
}

/** Gets tokens from an OpenID provider by client credentials (RFC 6749, 4.4). */
function openIdTokens ({
  KAFKA_OAUTH_TOKEN_URL: url = '', KAFKA_OAUTH_CLIENT_ID: id = '',
  KAFKA_OAUTH_CLIENT_SECRET: secret = '', KAFKA_OAUTH_SCOPE: scope,
}: KafkaSettings): () => Promise<Token> {
  return async () => {
    // Few deployments use tokens, and every command connects to Kafka.
    const client = await import('openid-client')
    const issuer = new client.Configuration({ issuer: url, token_endpoint: url }, id, secret)
    if (url.startsWith('http:')) client.allowInsecureRequests(issuer)
    try {
      const { access_token: value, expires_in: seconds = 0 } = await client.clientCredentialsGrant(
        issuer, scope === undefined ? {} : { scope })
      return { value, expiresAtMs: Date.now() + seconds * 1_000 }
    } catch (failure) {
      const { error, code } = failure as { readonly error?: string, readonly code?: string }
      throw new TokenError(`no token from KAFKA_OAUTH_TOKEN_URL (${error ?? code ?? 'no answer'}` +
        '): check it, KAFKA_OAUTH_CLIENT_ID and KAFKA_OAUTH_CLIENT_SECRET')
    }
  }
}

const MSK_TOKEN_SECONDS = 900

/**
 * A token for the IAM access control of Amazon MSK, as its own signers make it: the address of the
 * action kafka-cluster:Connect, signed for 15 minutes (Signature Version 4), in base64url.
 * Credentials follow the standard chain of the AWS SDK.
 */
async function mskToken (region: string): Promise<Token> {
  const [{ Sha256 }, { SignatureV4 }, { defaultProvider }] = await Promise.all([
    import('@smithy/core/checksum'), import('@smithy/signature-v4'),
    import('@aws-sdk/credential-provider-node'),
  ])
  const signer = new SignatureV4({
    credentials: defaultProvider(),
    region,
    service: 'kafka-cluster',
    sha256: Sha256,
    applyChecksum: false,
  })
  const hostname = `kafka.${region}.amazonaws.com`
  const signingDate = new Date()
  const { path, query = {} } = await signer.presign({
    method: 'GET',
    protocol: 'https:',
    hostname,
    path: '/',
    headers: { host: hostname },
    query: { Action: 'kafka-cluster:Connect' },
  }, { expiresIn: MSK_TOKEN_SECONDS, signingDate }).catch((error: Error) => {
    throw new TokenError(`no token for Amazon MSK (${error.name}): check the credentials of AWS ` +
      'that this process finds, in its environment, a profile or a role')
  })
  const url = new URL(path, `https://${hostname}`)
  // The brokers log the client that it names; it is not signed.
  for (const [name, value] of Object.entries({ ...query, 'User-Agent': 'verification-jobs' })) {
    url.searchParams.append(name, String(value))
  }
  return {
    value: Buffer.from(url.href).toString('base64url'),
    expiresAtMs: signingDate.getTime() + MSK_TOKEN_SECONDS * 1_000,
  }
}

/** The options of kafkajs for a connection. */
export function toKafkaOptions (
  { brokers, ssl, sasl }: KafkaConnection
): Pick<KafkaConfig, 'brokers' | 'ssl' | 'sasl'> {
  return {
    brokers: [...brokers],
    ...ssl === undefined ? {} : { ssl },
    ...sasl === undefined ? {} : { sasl },
  }
}
