import { pino, type DestinationStream, type Logger } from 'pino'
import { traceFields } from './tracing.ts'

export type Log = Logger

/** Fields that may contain data that must never be logged, at the top level or one below. */
const SECRET_FIELDS = [
  'input', 'inputs', 'canonical', 'canonicals', 'rows', 'columns', 'values', 'value', 'token',
  'tokens', 'sealed', 'wrapped', 'header', 'key', 'dataKey', 'secret', 'authorization',
  'cookie', 'password', 'url', 'metadata', 'body', 'query',
]

/**
 * A JSON log. Redaction is the second line of defense: callers log ids, counts and codes only.
 * Errors are logged with name, code and stack frames; their messages may quote inputs.
 */
export function createLog (
  name: string,
  { level = 'info', destination }: { level?: string, destination?: DestinationStream } = {}
): Log {
  const paths = SECRET_FIELDS.flatMap(field => [field, `*.${field}`])
  const redact = { paths, censor: '[hidden]' }
  const serializers = { err: errorFields }
  const options = { name, level, redact, serializers, mixin: traceFields }
  return destination === undefined ? pino(options) : pino(options, destination)
}

/** The fields of an error; with its message if that is written for operators. */
function errorFields (error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error }
  const { name, message, stack = '', cause } = error
  const frames = stack.split('\n').filter(line => line.startsWith('    at ')).slice(0, 8)
  return {
    type: name,
    ...('code' in error ? { code: String(error.code) } : {}),
    ...(MESSAGES_FOR_OPERATORS.has(name) ? { message } : {}),
    at: frames.map(line => line.slice(7)),
    ...(cause instanceof Error ? { cause: errorFields(cause) } : {}),
  }
}

/** Errors whose messages have ids, counts and codes only: never contacts or texts of vendors. */
const MESSAGES_FOR_OPERATORS: ReadonlySet<string> = new Set([
  'ConfigError', 'FatalError', 'InfrastructureError', 'InconsistencyError', 'SealError',
  'FrozenError', 'JobKeyLostError', 'NotSubmittedError', 'UnsendableError', 'ProviderError',
  'ResultsError', 'MissingResultsError', 'LostResultsError', 'TypeError', 'RangeError',
  'KafkaJSConnectionError', 'KafkaJSRequestTimeoutError', 'KafkaJSProtocolError',
  'KafkaJSNumberOfRetriesExceeded', 'MaxRetriesPerRequestError', 'ReplyError',
])

/**
 * Limits logs of frequent events: true for each name at most once per interval. It forgets names
 * after that.
 */
export function createLogThrottle (
  intervalMs: number, now: () => number = () => performance.now()
): (name: string) => boolean {
  const lastAtMs = new Map<string, number>()
  return name => {
    const nowMs = now()
    for (const [name, atMs] of lastAtMs) {
      if (nowMs - atMs < intervalMs) break
      lastAtMs.delete(name)
    }
    if (lastAtMs.has(name)) return false
    lastAtMs.set(name, nowMs)
    return true
  }
}
