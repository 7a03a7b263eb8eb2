import type { RawMessage } from '../kafka/bus.ts'
import { traceIdOf } from '../platform/tracing.ts'

type Headed = Pick<RawMessage, 'headers'>

/** The log fields of messages: their job, or the number of jobs if there are several. */
export type MessageIds = {
  readonly tenant?: string
  readonly job?: string
  readonly jobs?: number
  readonly traceId?: string
}

/** Groups messages by job, in order; messages without a job are one group. */
export function byJob<M extends Headed> (
  messages: readonly M[]
): ReadonlyMap<string, readonly M[]> {
  const groups = new Map<string, M[]>()
  for (const message of messages) {
    const { job = '' } = message.headers
    const others = groups.get(job)
    if (others === undefined) groups.set(job, [message])
    else others.push(message)
  }
  return groups
}

/** The log fields of messages, by their headers. */
export function idsOf (messages: readonly Headed[]): MessageIds {
  const [first] = messages
  if (first === undefined) return {}
  const jobs = byJob(messages).size
  if (jobs > 1) return { jobs }
  const { tenant, job } = first.headers
  const traceId = traceIdOf(first.headers)
  return { ...tenant && { tenant }, ...job && { job }, ...traceId && { traceId } }
}

/** The log fields of a message: its job and its position. */
export function messageFields (
  raw: Pick<RawMessage, 'headers' | 'topic' | 'partition' | 'offset'>
): MessageIds & { readonly topic: string, readonly partition: number, readonly offset: string } {
  const { topic, partition, offset } = raw
  return { ...idsOf([raw]), topic, partition, offset: String(offset) }
}
