import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import type { Summary } from '../../services/admin/dead/letters.ts'
import { createDeadLetters, type DeadLetter } from '../../services/runtime/engine/dead-letters.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import type { OutgoingMessage, Producer, RawMessage } from '../../services/runtime/kafka/bus.ts'
import { createTopicReader } from '../../services/runtime/kafka/topic-reader.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import type { StageName } from '../../services/topology.ts'
import { runCommand } from './admin.ts'
import { eventually } from './eventually.ts'
import { stackFolder } from './workspace.ts'

type Env = Readonly<Record<string, string>>
type Brokers = readonly string[]

/** The commands for dead letters, on a stack. */
export function openDeadCommands (env: Env) {
  const folder = stackFolder(env)
  /** What the command shows. */
  const dead = async (...words: readonly string[]): Promise<string> => {
    const before = process.exitCode
    const shown = await runCommand(['--data', folder, 'dead', ...words])
    process.exitCode = before
    return shown
  }
  const lettersOf = async (
    job: string, ...more: readonly string[]
  ): Promise<readonly Summary[]> =>
    JSON.parse(await dead('list', '--job', job, '--json', ...more)).letters
  /** The pending letters of a job, once there are this many. */
  const waitingOf = async (job: string, count = 1): Promise<readonly Summary[]> =>
    await eventually(async () => {
      const letters = await lettersOf(job)
      expect(letters).toHaveLength(count)
      return letters
    })
  /** The command as a process of its own. */
  const run = (...words: readonly string[]) => promisify(execFile)(
    process.execPath, ['services/admin/main.ts', 'dead', '--data', folder, ...words])
  return { dead, lettersOf, waitingOf, run }
}

/** Resolves once a group has processed everything in its topic. */
export async function untilRead (
  brokers: Brokers, groupId: string, topic: string
): Promise<void> {
  await withAdmin({ brokers }, async admin => {
    await eventually(async () => {
      const [group] = await admin.fetchOffsets({ groupId, topics: [topic] })
      const done = new Map(group?.partitions.map(({ partition, offset }) => [partition, offset]))
      for (const { partition, high } of await admin.fetchTopicOffsets(topic)) {
        if (high !== '0') expect(done.get(partition)).toBe(high)
      }
    })
  })
}

/** Moves a group without members to the end of a topic, as if it had been read. */
export async function skipAll (brokers: Brokers, groupId: string, topic: string): Promise<void> {
  await withAdmin({ brokers }, async admin => {
    const partitions = (await admin.fetchTopicOffsets(topic))
      .map(({ partition, high }) => ({ partition, offset: high }))
    await admin.setOffsets({ groupId, topic, partitions })
  })
}

/** The messages of a job in a topic, by their keys. */
export async function messagesOf (
  brokers: Brokers, job: string, topic: string
): Promise<readonly RawMessage[]> {
  const found: RawMessage[] = []
  const { read } = createTopicReader({ brokers, clientId: 'dead-test' })
  await read(topic, messages => {
    found.push(...messages.filter(({ headers }) => headers['job'] === job))
  })
  return found.toSorted((a, b) => String(a.key) < String(b.key) ? -1 : 1)
}

/** A copy of a message, with its own content unless another is given. */
export function onceMore (
  { topic, key, headers, value }: RawMessage, content = value
): OutgoingMessage {
  return { topic, key: String(key), value: content, headers }
}

/** Sends messages to the dead letters of a stage, as the stage does. */
export async function sendDeadLetters (
  producer: Producer, stage: StageName, letters: readonly Omit<DeadLetter, 'cause'>[],
  now = Date.now
): Promise<void> {
  const dead = createDeadLetters({
    stage, producer: () => producer, metrics: createMetrics(), limit: Infinity, now,
  })
  await dead.send([letters.map(letter => ({ ...letter, cause: 'decided' }))])
}
