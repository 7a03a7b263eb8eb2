import type { OutgoingMessage, RawMessage } from '../../lib/bus.ts'
import { logicalTopic } from '../../lib/topics.ts'
import { topology, type StageName } from '../../topology.ts'

const ADDED = 'dead_'

/**
 * The message as it was before it died: same key, content and headers, to the topic it came from.
 * Undefined for what did not come from a topic the stage reads: nobody would take it from there.
 */
export function resent (stage: StageName, raw: RawMessage): OutgoingMessage | undefined {
  const topic = raw.headers['dead_topic'] ?? ''
  if (!isReadBy(stage, topic)) return undefined
  const headers = Object.fromEntries(
    Object.entries(raw.headers).filter(([name]) => !name.startsWith(ADDED)))
  return { topic, key: raw.key.toString(), value: raw.value, headers }
}

/** Whether a stage reads a topic of the broker. */
export function isReadBy (stage: StageName, name: string): boolean {
  const reads: readonly string[] = topology.stages[stage].reads
  const topic = logicalTopic(name)?.topic
  return topic !== undefined && reads.includes(topic)
}
