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
