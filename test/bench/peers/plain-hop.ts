import { Kafka, logLevel } from 'kafkajs'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createTopics, withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { withDeadline } from '../jobs.ts'
import type { Hop } from './hop.ts'
import { watchOutputs } from './output-watcher.ts'

export type PlainHopOptions = {
  /** Name of the program `<name>.ts` in this folder. */
  readonly name: string
  readonly brokers: readonly string[]
  /** Inputs of each chunk. */
  readonly chunks: readonly (readonly string[])[]
}

const PARTITIONS = 4
const MESSAGES_PER_REQUEST = 25

/** Starts a hop that takes and produces plain JSON, with some Kafka client, as a child process. */
export async function startPlainHop ({ name, brokers, chunks }: PlainHopOptions): Promise<Hop> {
  const from = `bench.${name}.in`
  const to = `bench.${name}.out`
  await createHopTopics(brokers, [from, to])
  const program = join(import.meta.dirname, `${name}.ts`)
  const child = fork(program, [brokers.join(','), from, to])
  await withDeadline(`the start of ${name}`, once(child, 'message'))
  const kafka = new Kafka({ brokers: [...brokers], clientId: 'bench', logLevel: logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  const outputs = await watchOutputs(brokers, to)
  const bodies = chunks.map(inputs => JSON.stringify({ inputs }))
  let rounds = 0
  return {
    name,
    round: async () => {
      const round = `${name}-${++rounds}`
      const end = outputs.waitFor(round, bodies.length)
      const startedAt = performance.now()
      const messages = bodies.map((value, chunk) =>
        ({ key: `${round}:${chunk}`, value, headers: { job: round } }))
      await Promise.all(batchesOf(messages).map(batch =>
        producer.send({ topic: from, acks: -1, messages: batch })))
      return await end - startedAt
    },
    close: async () => {
      await Promise.all([stopChild(child), outputs.close(), producer.disconnect()])
      await withAdmin({ brokers }, admin => admin.deleteTopics({ topics: [from, to] }))
    },
  }
}

/** A batch for one partition must not exceed the maximum message size of brokers, 1 MB. */
function batchesOf<T> (messages: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(messages.length / MESSAGES_PER_REQUEST) }, (_, index) =>
    messages.slice(index * MESSAGES_PER_REQUEST, (index + 1) * MESSAGES_PER_REQUEST))
}

async function createHopTopics (
  brokers: readonly string[], names: readonly string[]
): Promise<void> {
  const topics = names.map(name =>
    ({ name, partitions: PARTITIONS, keepHours: 1, compact: false }))
  await withAdmin({ brokers }, admin => createTopics(admin, topics, {}))
}

async function stopChild (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const exited = once(child, 'exit')
  child.disconnect()
  await exited
}
