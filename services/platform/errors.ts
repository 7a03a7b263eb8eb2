import { isStoreFailure } from './clickhouse-codes.ts'

/** An external system is unavailable: retried forever, never a dead letter. */
export class InfrastructureError extends Error {
  override readonly name: string = 'InfrastructureError'
}

/** An unrecoverable error: the consumer stops and the process exits with code 1. */
export class FatalError extends Error {
  override readonly name = 'FatalError'
}

/**
 * Data of stores or messages that contradict each other, which a retry may not fix. The message has
 * ids and counts only, because it is logged.
 */
export class InconsistencyError extends Error {
  override readonly name = 'InconsistencyError'
}

/** Errors of sockets, DNS and file descriptors, as reported by Node and undici. */
const NETWORK_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN',
  'EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN', 'ENETRESET', 'EADDRNOTAVAIL',
  'ENOTCONN', 'EMFILE', 'ENFILE', 'UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'ERR_STREAM_PREMATURE_CLOSE',
])

/** Node's codes for certificates that are not trusted, expired or of another host. */
const CERTIFICATE_CODES: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID', 'CERT_SIGNATURE_FAILURE', 'ERR_TLS_CERT_ALTNAME_INVALID',
])

/** Error prefixes of Redis when it cannot serve commands now. */
const REDIS_PREFIXES: ReadonlySet<string> = new Set([
  'LOADING', 'BUSY', 'CLUSTERDOWN', 'TRYAGAIN', 'MASTERDOWN', 'READONLY', 'NOREPLICAS', 'OOM',
  'MISCONF', 'NOAUTH', 'WRONGPASS', 'NOPERM', 'UNKILLABLE',
])

/** Messages of ioredis for lost connections: plain errors without a code. */
const CLIENT_MESSAGES: ReadonlySet<string> = new Set([
  'Connection is closed.', 'Command timed out', 'All sentinels are unreachable',
  "Stream isn't writeable and enableOfflineQueue options is false",
  'Timeout error.', 'socket hang up',
])

const CLIENT_NAMES: ReadonlySet<string> = new Set([
  'MaxRetriesPerRequestError', 'ClusterAllFailedError',
])

/** Retriable errors of kafkajs, which do not all have its `retriable` flag. */
const KAFKA_NAMES: ReadonlySet<string> = new Set([
  'KafkaJSConnectionError', 'KafkaJSRequestTimeoutError', 'KafkaJSConnectionClosedError',
  'KafkaJSBrokerNotFound', 'KafkaJSGroupCoordinatorNotFound', 'KafkaJSLockTimeout',
  'KafkaJSMetadataNotLoaded', 'KafkaJSTopicMetadataNotLoaded', 'KafkaJSTimeout',
  'KafkaJSSASLAuthenticationError', 'KafkaJSStaleTopicMetadataAssignment',
])

/** Authorization errors of brokers, which end once the right is granted. */
const KAFKA_DENIAL = /^(?:TOPIC|GROUP|CLUSTER|TRANSACTIONAL_ID)_AUTHORIZATION_FAILED$/

/** Authentication errors of brokers, which end by themselves or once the user is fixed. */
const KAFKA_SIGN_IN = /^(?:SASL_AUTHENTICATION_FAILED|ILLEGAL_SASL_STATE)$/

const CAUSES_DEPTH = 5

/**
 * Whether an error means that Redis, Kafka, ClickHouse or the network is unavailable. An unknown
 * error does not: it counts as an error of the message or of the code.
 */
export function isInfrastructure (error: unknown, depth = CAUSES_DEPTH): boolean {
  if (!(error instanceof Error) || depth === 0) return false
  if (error instanceof InfrastructureError) return true
  if (isNetwork(error) || isRedis(error) || isKafka(error) || isClickhouse(error)) return true
  const inner: readonly unknown[] = error instanceof AggregateError ? error.errors : []
  return [error.cause, ...inner].some(one => isInfrastructure(one, depth - 1))
}

/** Whether an untrusted certificate is the error or one of its causes. */
export function isUntrusted (error: unknown, depth = CAUSES_DEPTH): boolean {
  if (!(error instanceof Error) || depth === 0) return false
  return CERTIFICATE_CODES.has(codeOf(error)) || isUntrusted(error.cause, depth - 1)
}

/** Whether the type of a Kafka error means that the user lacks a permission. */
export function isDenial (type: string): boolean {
  return KAFKA_DENIAL.test(type)
}

function isNetwork (error: Error): boolean {
  const code = codeOf(error)
  if (isUntrusted(error) || code === 'EPROTO' || code.startsWith('ERR_SSL_')) return true
  return NETWORK_CODES.has(code) || CLIENT_MESSAGES.has(error.message)
}

function isRedis (error: Error): boolean {
  if (CLIENT_NAMES.has(error.name)) return true
  if (error.name === 'ReplyError') return REDIS_PREFIXES.has(error.message.split(' ', 1)[0] ?? '')
  return error.name === 'AbortError' && 'command' in error
}

function isKafka (error: Error): boolean {
  if (!error.name.startsWith('KafkaJS')) return false
  if (error.name === 'KafkaJSNumberOfRetriesExceeded') return true
  const type = 'type' in error ? String(error.type) : ''
  if (isDenial(type) || KAFKA_SIGN_IN.test(type)) return true
  return KAFKA_NAMES.has(error.name) || ('retriable' in error && error.retriable === true)
}

function isClickhouse (error: Error): boolean {
  return 'type' in error && isStoreFailure(codeOf(error))
}

function codeOf (error: Error): string {
  return 'code' in error ? String(error.code) : ''
}
