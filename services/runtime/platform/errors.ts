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
  'LOADING', 'BUSY', 'CLUSTERDOWN', 'TRYAGAIN', 'MOVED', 'ASK', 'MASTERDOWN', 'READONLY',
  'NOREPLICAS', 'OOM', 'MISCONF', 'NOAUTH', 'WRONGPASS', 'NOPERM', 'UNKILLABLE',
])

/** Messages of ioredis for lost connections: plain errors without a code. */
const CLIENT_MESSAGES: ReadonlySet<string> = new Set([
  'Connection is closed.', 'Command timed out', 'All sentinels are unreachable',
  "Stream isn't writeable and enableOfflineQueue options is false",
  'Timeout error.', 'socket hang up',
  "Cluster isn't ready and enableOfflineQueue options is false", 'Cluster is ended.',
  'None of startup nodes is available', 'No subscriber for the cluster',
])

/** Of a cluster whose slots move, or a server of which is lost: what ioredis and a script say. */
const CLUSTER_MESSAGE =
  /^Too many Cluster redirections|Script attempted to access a non local key in a cluster node/

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
  const { name, message } = error
  const code = readCode(error)
  const type = 'type' in error ? String(error.type) : ''
  const isNetwork = NETWORK_CODES.has(code) || CLIENT_MESSAGES.has(message) || code === 'EPROTO' ||
    code.startsWith('ERR_SSL_') || isUntrusted(error)
  const isRedis = CLIENT_NAMES.has(name) || CLUSTER_MESSAGE.test(message) ||
    (name === 'ReplyError' && REDIS_PREFIXES.has(message.split(' ', 1)[0] ?? '')) ||
    (name === 'AbortError' && 'command' in error)
  const isKafka = name.startsWith('KafkaJS') &&
    (name === 'KafkaJSNumberOfRetriesExceeded' || KAFKA_NAMES.has(name) || isDenial(type) ||
      KAFKA_SIGN_IN.test(type) || ('retriable' in error && error.retriable === true))
  const isClickhouse =
    'type' in error && /^\d+$/.test(code) && !STATEMENT_ERROR_CODES.has(Number(code))
  if (isNetwork || isRedis || isKafka || isClickhouse) return true
  const inner: readonly unknown[] = error instanceof AggregateError ? error.errors : []
  return [error.cause, ...inner].some(cause => isInfrastructure(cause, depth - 1))
}

/**
 * Whether an error says nothing about the data in work: another try may succeed once a store is
 * back, or an operator has fixed what is missing, such as a root key.
 */
export function isOutageOrFatal (error: unknown): boolean {
  return isInfrastructure(error) || error instanceof FatalError
}

/** Handles a rejection: `fallback` for an infrastructure error, as of one server of several. */
export const orIfUnavailable = <T>(fallback: T) => (error: unknown): T => {
  if (!isInfrastructure(error)) throw error
  return fallback
}

/** Whether an untrusted certificate is the error or one of its causes. */
export function isUntrusted (error: unknown, depth = CAUSES_DEPTH): boolean {
  if (!(error instanceof Error) || depth === 0) return false
  return CERTIFICATE_CODES.has(readCode(error)) || isUntrusted(error.cause, depth - 1)
}

/** Whether the type of a Kafka error means that the user lacks a permission. */
export function isDenial (type: string): boolean {
  return KAFKA_DENIAL.test(type)
}

function readCode (error: Error): string {
  return 'code' in error ? String(error.code) : ''
}

const STORES = {
  REDIS_STATE_URL: 'The state Redis',
  REDIS_CACHE_URL: 'The cache Redis',
  CLICKHOUSE_URL: 'ClickHouse',
  KAFKA_BROKERS: 'Kafka',
  SCHEMA_REGISTRY_URL: 'The schema registry',
} as const

/** The setting that has the address of a store. */
export type StoreSetting = keyof typeof STORES

/** The hosts, after the credentials, of a URL with several hosts, which is not a valid one. */
const HOSTS = /^[\w+-]+:\/\/(?:.*@)?([^@/?#]+)/

/**
 * A store in words: `ClickHouse (CLICKHOUSE_URL, 127.0.0.1:8123)`. Of its URL only hosts and ports
 * are shown, as user, password and query may be secret.
 */
export function storeText (setting: StoreSetting, url: string): string {
  const address = URL.parse(url)?.host ?? HOSTS.exec(url)?.[1] ?? ''
  return `${STORES[setting]} (${[setting, address].filter(Boolean).join(', ')})`
}

const stores = new WeakMap<object, string>()

/** Records the store, in words, that an error comes from: errors of libraries do not name it. */
export function markFailed (error: unknown, store: string): void {
  if (typeof error === 'object' && error !== null) stores.set(error, store)
}

/** The store that an error or one of its causes comes from, in words, if it was recorded. */
export function findFailedStore (error: unknown, depth = CAUSES_DEPTH): string | undefined {
  if (!(error instanceof Error) || depth === 0) return undefined
  const inner: readonly unknown[] = error instanceof AggregateError ? error.errors : []
  return stores.get(error) ?? [error.cause, ...inner]
    .map(cause => findFailedStore(cause, depth - 1)).find(store => store !== undefined)
}

/**
 * Error codes of ClickHouse (`system.errors`) for invalid statements or data: a retry fails again,
 * whatever the state of the store. Codes of unused features are left out.
 *
 * Left out on purpose: unknown tables and databases (60, 81), which provisioning creates; and
 * truncated data or impossible sizes (32, 33, 128, 131), which mean a damaged file of the store,
 * because statements are sent complete and as text.
 */
const STATEMENT_ERRORS = {
  UNSUPPORTED_METHOD: 1,
  UNSUPPORTED_PARAMETER: 2,
  CANNOT_PARSE_TEXT: 6,
  INCORRECT_NUMBER_OF_COLUMNS: 7,
  THERE_IS_NO_COLUMN: 8,
  NOT_FOUND_COLUMN_IN_BLOCK: 10,
  PARAMETER_OUT_OF_BOUND: 12,
  DUPLICATE_COLUMN: 15,
  NO_SUCH_COLUMN_IN_TABLE: 16,
  SIZE_OF_FIXED_STRING_DOESNT_MATCH: 19,
  NUMBER_OF_COLUMNS_DOESNT_MATCH: 20,
  CANNOT_PARSE_ESCAPE_SEQUENCE: 25,
  CANNOT_PARSE_QUOTED_STRING: 26,
  CANNOT_PARSE_INPUT_ASSERTION_FAILED: 27,
  TOO_MANY_ARGUMENTS_FOR_FUNCTION: 34,
  TOO_FEW_ARGUMENTS_FOR_FUNCTION: 35,
  BAD_ARGUMENTS: 36,
  CANNOT_PARSE_DATE: 38,
  CANNOT_PARSE_DATETIME: 41,
  NUMBER_OF_ARGUMENTS_DOESNT_MATCH: 42,
  ILLEGAL_TYPE_OF_ARGUMENT: 43,
  ILLEGAL_COLUMN: 44,
  UNKNOWN_FUNCTION: 46,
  UNKNOWN_IDENTIFIER: 47,
  NOT_IMPLEMENTED: 48,
  UNKNOWN_TYPE: 50,
  EMPTY_LIST_OF_COLUMNS_QUERIED: 51,
  COLUMN_QUERIED_MORE_THAN_ONCE: 52,
  TYPE_MISMATCH: 53,
  TABLE_ALREADY_EXISTS: 57,
  ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER: 59,
  SYNTAX_ERROR: 62,
  UNKNOWN_AGGREGATE_FUNCTION: 63,
  ARGUMENT_OUT_OF_BOUND: 69,
  CANNOT_CONVERT_TYPE: 70,
  CANNOT_PARSE_NUMBER: 72,
  UNKNOWN_FORMAT: 73,
  UNKNOWN_TYPE_OF_QUERY: 78,
  INCORRECT_QUERY: 80,
  DATABASE_ALREADY_EXISTS: 82,
  FORMAT_IS_NOT_SUITABLE_FOR_INPUT: 85,
  NO_DATA_TO_INSERT: 108,
  UNKNOWN_SETTING: 115,
  THERE_IS_NO_DEFAULT_VALUE: 116,
  INCORRECT_DATA: 117,
  CANNOT_READ_ARRAY_FROM_TEXT: 130,
  TOO_DEEP_AST: 167,
  TOO_BIG_AST: 168,
  ILLEGAL_AGGREGATION: 184,
  AMBIGUOUS_IDENTIFIER: 207,
  EMPTY_QUERY: 211,
  NOT_AN_AGGREGATE: 215,
  QUERY_IS_TOO_LARGE: 229,
  VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE: 321,
  CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN: 349,
  AMBIGUOUS_COLUMN_NAME: 352,
  CANNOT_PARSE_UUID: 376,
  NO_COMMON_TYPE: 386,
  DECIMAL_OVERFLOW: 407,
  INVALID_LIMIT_EXPRESSION: 440,
  UNKNOWN_QUERY_PARAMETER: 456,
  BAD_QUERY_PARAMETER: 457,
  CANNOT_PARSE_BOOL: 467,
  VIOLATED_CONSTRAINT: 469,
  INVALID_SETTING_VALUE: 471,
  INVALID_FORMAT_INSERT_QUERY_WITH_DATA: 578,
  UNEXPECTED_DATA_AFTER_PARSED_VALUE: 632,
  UNKNOWN_ELEMENT_OF_ENUM: 691,
} as const

/**
 * Every other code, those of future versions included, means that the store is broken, full,
 * overloaded or not ready: retrying until it works loses nothing, while a statement dropped for a
 * failure of the store is lost.
 */
const STATEMENT_ERROR_CODES: ReadonlySet<number> = new Set(Object.values(STATEMENT_ERRORS))
