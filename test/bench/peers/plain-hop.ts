import { Kafka, logLevel } from 'kafkajs'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createTopics, withAdmin } from '../../../services/kafka/admin.ts'
import { inTime } from '../in-time.ts'
import type { Hop } from './hop.ts'
import { watchOutputs } from './outputs.ts'

export type PlainOptions = {
  /** The program `<name>.ts` beside this one. */
  readonly name: string
  readonly brokers: readonly string[]
  /** Inputs of each chunk. */
  readonly chunks: readonly (readonly string[])[]
}

const PARTITIONS = 4
const MESSAGES_AT_ONCE = 25

/** An unsealed hop of JSON by some client of Kafka, in a process of its own. */
export async function startPlainHop ({ name, brokers, chunks }: PlainOptions): Promise<Hop> {
  const from = `bench.${name}.in`
  const to = `bench.${name}.out`
  await makeTopics(brokers, [from, to])
  const program = join(import.meta.dirname, `${name}.ts`)
  const child = fork(program, [brokers.join(','), from, to])
  await inTime(`the start of ${name}`, once(child, 'message'))
  const kafka = new Kafka({ brokers: [...brokers], clientId: 'bench', logLevel: logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  const outputs = await watchOutputs(brokers, to)
  const texts = chunks.map(inputs => JSON.stringify({ inputs }))
  let rounds = 0
  return {
    name,
    round: async () => {
      const round = `${name}-${++rounds}`
      const end = outputs.until(round, texts.length)
      const startedAt = performance.now()
      const messages = texts.map((value, chunk) =>
        ({ key: `${round}:${chunk}`, value, headers: { job: round } }))
      await Promise.all(slicesOf(messages).map(some =>
        producer.send({ topic: from, acks: -1, messages: some })))
      return await end - startedAt
    },
    close: async () => {
      await Promise.all([stop(child), outputs.close(), producer.disconnect()])
      await withAdmin({ brokers }, admin => admin.deleteTopics({ topics: [from, to] }))
    },
  }
}

/** What goes to one partition at once must not be larger than brokers take, which is 1 MB. */
function slicesOf<T> (messages: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(messages.length / MESSAGES_AT_ONCE) }, (_, index) =>
    messages.slice(index * MESSAGES_AT_ONCE, (index + 1) * MESSAGES_AT_ONCE))
}

async function makeTopics (brokers: readonly string[], names: readonly string[]): Promise<void> {
  const topics = names.map(name =>
    ({ name, partitions: PARTITIONS, keepHours: 1, compact: false }))
  await withAdmin({ brokers }, admin => createTopics(admin, topics, {}))
}

async function stop (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const ended = once(child, 'exit')
  child.disconnect()
  await ended
}
