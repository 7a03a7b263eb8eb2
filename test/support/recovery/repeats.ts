import type { FeedResult, Journal } from '../../../schemas/types.ts'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { createCodec, registrySource } from '../../../services/runtime/kafka/registry.ts'
import { createTopicReader } from '../../../services/runtime/kafka/topic-reader.ts'
import { logicalTopic } from '../../../services/runtime/platform/topics.ts'

type Env = Readonly<Record<string, string | undefined>>

/** Which messages to read: of all tenants, or of one. */
export type RepeatsScope = { readonly sinceMs: number, readonly tenant?: string }

/**
 * Finds ends of jobs, journal entries and results of contacts that were sent more than once. In a
 * run without faults there are none. Returns one line for each topic that has some.
 */
export async function findRepeats (
  env: Env, { sinceMs, tenant }: RepeatsScope
): Promise<readonly string[]> {
  const brokers = (env['KAFKA_BROKERS'] ?? '').split(',')
  const codec = createCodec(
    registrySource({ SCHEMA_REGISTRY_URL: env['SCHEMA_REGISTRY_URL'] ?? '' }))
  const identify = async ({ topic, key, value }: RawMessage): Promise<string> => {
    if (topic === 'jobs.settled') return String(key)
    const bytes = value ?? Buffer.alloc(0)
    if (topic === 'wallet.journal') {
      const entry = await codec.decode('wallet.journal', bytes) as Journal
      return `${entry.tenant} ${entry.seq}`
    }
    return (await codec.decode('feeds.finished', bytes) as FeedResult).resultId
  }
  const all = await withAdmin({ brokers }, admin => admin.listTopics())
  const topics = ['jobs.settled', 'wallet.journal',
    ...all.filter(name => logicalTopic(name)?.topic === 'feeds.finished')]
  const { read } = createTopicReader({ brokers, clientId: 'repeats' })
  const lines: string[] = []
  for (const topic of topics) {
    const seen = new Set<string>()
    let [messages, repeats] = [0, 0]
    await read(topic, async batch => {
      for (const message of batch) {
        const isWanted = message.timestampMs >= sinceMs &&
          (tenant === undefined || [undefined, tenant].includes(message.headers['tenant']))
        if (!isWanted) continue
        const identity = await identify(message)
        messages++
        if (seen.has(identity)) repeats++
        seen.add(identity)
      }
    }, { sinceMs })
    if (repeats > 0) lines.push(`${topic}: ${repeats} of ${messages} messages were sent twice`)
  }
  return lines
}
