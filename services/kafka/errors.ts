import { isDenial, isUntrusted } from '../platform/errors.ts'

/** The protocol's name of an error that kafkajs may have wrapped, as `MESSAGE_TOO_LARGE`; or ''. */
export function kafkaTypeOf (error: unknown): string {
  if (!(error instanceof Error)) return ''
  return 'type' in error && typeof error.type === 'string' ? error.type : kafkaTypeOf(error.cause)
}

/** What kafkajs calls final although it only means that an answer was lost or came too late. */
const OUTAGES = ['KafkaJSGroupCoordinatorNotFound', 'KafkaJSLockTimeout']

/** A connection on which signing in again went out of step; a new one begins at the start. */
const OUT_OF_STEP = 'ILLEGAL_SASL_STATE'

/**
 * True for what may be over at the next try, as a lost connection. kafkajs calls its own giving up
 * final, but not the cause of it.
 */
export function isPassing (error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (OUTAGES.includes(error.name) || ('type' in error && error.type === OUT_OF_STEP)) return true
  return ('retriable' in error && error.retriable === true) || isPassing(error.cause)
}

/**
 * What an operator has to set right when brokers are there, but the connection is refused on either
 * side, or what is asked over it; undefined for everything that passes by itself.
 */
export function refusalOf (error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  if (error.name === 'KafkaJSSASLAuthenticationError') {
    return 'Kafka authentication failed: check KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME ' +
      'and KAFKA_SASL_PASSWORD'
  }
  if (isUntrusted(error)) {
    return 'The certificate of Kafka is not trusted: give the file of its authority as ' +
      'NODE_EXTRA_CA_CERTS, and the names in the certificate as KAFKA_BROKERS'
  }
  if ('type' in error && isDenial(String(error.type))) {
    return `Kafka denies this user something (${String(error.type)}): give KAFKA_SASL_USERNAME ` +
      'the right to it'
  }
  return refusalOf(error.cause)
}
