/** The protocol's name of an error that kafkajs may have wrapped, as `MESSAGE_TOO_LARGE`; or ''. */
export function kafkaTypeOf (error: unknown): string {
  if (!(error instanceof Error)) return ''
  return 'type' in error && typeof error.type === 'string' ? error.type : kafkaTypeOf(error.cause)
}

/** What kafkajs calls final although it only means that an answer was lost or came too late. */
const OUTAGES = ['KafkaJSGroupCoordinatorNotFound', 'KafkaJSLockTimeout']

/**
 * True for what may be over at the next try, as a lost connection. kafkajs calls its own giving up
 * final, but not the cause of it.
 */
export function isPassing (error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (OUTAGES.includes(error.name)) return true
  return ('retriable' in error && error.retriable === true) || isPassing(error.cause)
}

/** What Node says of a certificate that it does not trust, or of another host. */
const CERTIFICATE_CODES: readonly unknown[] = [
  'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID', 'CERT_SIGNATURE_FAILURE', 'ERR_TLS_CERT_ALTNAME_INVALID',
]

/**
 * What an operator has to set right when brokers are there, but the connection is refused on either
 * side; undefined for everything that passes by itself.
 */
export function refusalOf (error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  if (error.name === 'KafkaJSSASLAuthenticationError') {
    return 'Kafka refuses to sign this user in: check KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME ' +
      'and KAFKA_SASL_PASSWORD'
  }
  if ('code' in error && CERTIFICATE_CODES.includes(error.code)) {
    return 'The certificate of Kafka is not trusted: give the file of its authority as ' +
      'NODE_EXTRA_CA_CERTS, and the names in the certificate as KAFKA_BROKERS'
  }
  return refusalOf(error.cause)
}
