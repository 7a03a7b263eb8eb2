import kafkajs from 'kafkajs'
import { isDenial, isUntrusted } from '../platform/errors.ts'

/** The OpenID provider gave no token; kafkajs retries it as a broker that does not answer. */
export class TokenError extends kafkajs.KafkaJSConnectionError {
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
