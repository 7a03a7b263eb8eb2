import { expect, it } from 'vitest'
import type { Normalized } from '../../schemas/types.ts'
import { runStage } from '../../services/runtime/engine/engine.ts'
import { createLog } from '../../services/runtime/platform/log.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { createCodec } from '../../services/runtime/kafka/registry.ts'
import { localSource } from '../support/kafka/local-schemas.ts'
import type {
  Decision, Incoming, MessageCodec, Stage,
} from '../../services/runtime/engine/stage.ts'
import {
  logicalTopic, messageKey, listSubscriptions, topicName,
} from '../../services/runtime/platform/topics.ts'
import { createMemoryBus } from '../support/kafka/memory-bus.ts'

// HOW TO WRITE A STAGE
//
// This file is the manual, and it runs. A stage is a folder of services/: it reads the topics that
// services/topology.ts lists for it and writes those listed there, and it is joined to the other
// stages only by topics.
//
// 1. THE DECISION. `stage.ts` turns messages into decisions and knows neither Kafka nor keys: it is
// given decoded messages, whose rows open on demand, and says what to emit. The types come from the
// topology, so emitting to a topic the stage does not list does not compile. Whatever the decision
// needs (a store, a clock, a provider) is given to the function that makes the stage.

type Chunk = Incoming<'rows.submitted'>
type Rows = { readonly canonicals: readonly string[], readonly reasons: readonly string[] }

type CanonicalOf = (inputs: readonly string[]) => Rows

function createUpperCaseStage (canonicalOf: CanonicalOf): Stage<'normalize'> {
  return {
    name: 'normalize',
    // At most so many messages are decided in one call; more of them share one wait for the broker.
    batch: 20,
    // One decision completes one or several messages. It says what is emitted for them, and all of
    // that is acknowledged before their offsets are committed. Only rows of a job that is not
    // accepted may be dropped; each row of an accepted job must be emitted.
    decide: async chunks => chunks.map(chunk => decisionOf(chunk, canonicalOf)),
    // 2. ERRORS. While a dependency is unavailable, the engine retries. Any other error is tried
    // three times; then the message goes to `normalize.dead` unchanged, and this function resolves
    // its rows, from its headers alone. It may have effects, which must be idempotent.
    resolveDead: async () => [],
    // 3. MEMORY. A message in no decision is held: its offset is not committed, and it comes again
    // after a restart. A stage that holds messages drops them here, because they come again; the
    // engine is given a function that creates such a stage for each subscription.
    forget: () => {},
  }
}

function decisionOf (chunk: Chunk, canonicalOf: CanonicalOf) {
  const { country, ...value } = chunk.value
  const { inputs } = chunk.rows()
  const rows = { inputs, tokens: Buffer.alloc(16 * inputs.length), ...canonicalOf(inputs) }
  const lane = 'small' as const
  const decision: Decision<'normalize'> = {
    completes: [chunk],
    emits: [{ topic: 'rows.normalized', lane, value, rows }],
    // 4. WHAT MAY HAPPEN ONLY AFTERWARDS goes into `afterProduced`: it runs once everything emitted
    // is acknowledged. It must be idempotent: after a crash it may run twice.
  }
  return decision
}

const toUpperCase: CanonicalOf = inputs => {
  if (inputs.includes('poison')) throw new Error('no rule for this input')
  return { canonicals: inputs.map(input => input.toUpperCase()), reasons: inputs.map(() => '') }
}

// 5. A TEST of a stage calls `decide` with values and checks the decisions: no broker, no keys.
// Only what the engine adds is shown here, on a bus in memory. The real message codec also seals
// the rows under a data key; this one leaves them readable, so that the example shows what travels.

const codec = createCodec(localSource())

const openCodec: MessageCodec = {
  decode: async raw => {
    const topic = logicalTopic(raw.topic)?.topic
    if (topic !== 'rows.submitted' || raw.value === null) return { kind: 'dead', reason: 'topic' }
    const value = await codec.decode(topic, raw.value) as Chunk['value']
    const decodeRows = await codec.prepare(`${topic}-rows`, value.rowsSchema)
    const rows = () => decodeRows(value.sealed) as ReturnType<Chunk['rows']>
    return { kind: 'message', message: { topic, value, rows, raw } }
  },
  encode: async ({ topic, lane, value, rows }) => {
    const { schemaId, bytes } = await codec.encodeBare(`${topic}-rows`, rows)
    const whole = { ...value, rowsSchema: schemaId, sealed: bytes }
    return {
      topic: topicName(topic, { lane }),
      key: messageKey(topic, value),
      value: await codec.encode(`${topic}-value`, whole),
      headers: {},
    }
  },
}

const chunkOf = (chunk: number): Omit<Chunk['value'], 'rowsSchema' | 'sealed'> => ({
  tenant: 'org_1.live',
  job: 'job_1',
  service: 'email-validation',
  chunk,
  chunks: 3,
  firstRow: chunk,
  rows: 1,
  totalRows: 3,
  country: '',
  submittedAt: 0,
  acceptBy: 25_000,
  forceFresh: false,
  sample: false,
  tokenVersion: '1',
  idempotencyKey: '',
  header: null,
})

it('a stage decides; the engine reads, sends, dead-letters and commits', async () => {
  const bus = createMemoryBus({ seed: 7 })
  const inputs = ['first', 'poison', 'last']
  const submitted = await Promise.all(inputs.map((input, chunk) => openCodec.encode({
    topic: 'rows.submitted', lane: 'small', value: chunkOf(chunk), rows: { inputs: [input] },
  })))
  await bus.producer('client').send(submitted)

  // 6. RUNNING. `main.ts` of every stage does only this: it connects the dependencies, creates the
  // stage and runs it in the engine, with one consumer for each lane of the topology.
  const stage = await runStage(createUpperCaseStage(toUpperCase), {
    bus,
    messageCodec: openCodec,
    metrics: createMetrics(),
    log: createLog('guide', { level: 'silent' }),
    subscriptions: listSubscriptions('normalize'),
    sleep: async () => {},
  })
  await bus.idle()

  const normalized = await Promise.all(bus.messages('rows.normalized.small').map(async raw => {
    const value = await codec.decode('rows.normalized', raw.value as Buffer) as Normalized
    const decode = await codec.prepare('rows.normalized-rows', value.rowsSchema)
    return decode(value.sealed)
  }))
  const canonicals = normalized.flatMap(rows => (rows as { canonicals: string[] }).canonicals)
  expect(canonicals.sort()).toEqual(['FIRST', 'LAST'])

  // The chunk that no rule fits stopped no other. It is a dead letter, with the reason.
  const [dead, ...others] = bus.messages('normalize.dead')
  expect(others).toEqual([])
  expect(dead?.headers.dead_reason).toBe('decision failed')
  expect(dead?.key.toString()).toBe('job_1:1')

  // Every offset is committed, as nothing is held: a restart begins behind the last message.
  const partitions = bus.messages('rows.submitted.small').map(({ partition }) => partition)
  for (const partition of new Set(partitions)) {
    const count = partitions.filter(one => one === partition).length
    expect(bus.committed('normalize.small', 'rows.submitted.small', partition)).toBe(BigInt(count))
  }
  await stage.stop()
  await bus.close()
})
