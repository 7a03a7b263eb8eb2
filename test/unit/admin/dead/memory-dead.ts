import type { OutgoingMessage, RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import {
  decisionMessage, type LetterDecision,
} from '../../../../services/runtime/engine/dead-letters.ts'
import type { DeadLetterDeps, JobState } from '../../../../services/admin/dead/letters.ts'
import type { StageName } from '../../../../services/topology.ts'
import { sendDeadLetters } from '../../../support/dead.ts'

export const DEAD_AT_MS = Date.UTC(2026, 0, 2, 3, 4, 5)
export const NOW_MS = DEAD_AT_MS + 90_000

/** Rows 1, 2 and 4 of the second chunk of a job. */
const rows = Buffer.of(0b1011).toString('base64')

/** A message as the stage read it. */
export function liveMessage (change: Partial<RawMessage> = {}): RawMessage {
  return {
    topic: 'rows.to-verify.small.whatsapp',
    partition: 3,
    offset: 55n,
    key: Buffer.from('job_a:1:0'),
    value: Buffer.from('sealed +12127365000'),
    headers: {
      tenant: 'org_a.live',
      job: 'job_a',
      service: 'whatsapp',
      lane: 'small',
      chunk: '1',
      chunks: '2',
      firstRow: '10',
      chunkRows: '5',
      totalRows: '15',
      rows,
    },
    timestampMs: 0,
    ...change,
  }
}

/** Topics in memory. Letters are in partition 0, in the order of their arrival. */
export function memoryDead () {
  const topics = new Map<string, RawMessage[]>()
  const sends: (readonly OutgoingMessage[])[] = []
  const append = ({ topic, key, value, headers }: OutgoingMessage) => {
    const messages = topics.get(topic) ?? []
    topics.set(topic, messages)
    const offset = BigInt(messages.length)
    messages.push({
      topic, partition: 0, offset, key: Buffer.from(key), value, headers, timestampMs: 0,
    })
  }
  const inspector: Parameters<Parameters<DeadLetterDeps['inspect']>[1]>[0] = {
    envelope: async () => ({ chunk: 1 }),
    replayEffect: async (tenant, job) => ({ jobStatus: `${tenant} ${job}`, replayEffect: 'r' }),
    jobs: async () => new Map(),
    content: async raw => String(raw.value),
  }
  const reports: Omit<LetterDecision, 'atMs'>[] = []
  const jobs = new Map<string, JobState>()
  const asked: object[] = []
  const deps: DeadLetterDeps = {
    read: async (topic, onMessages, { from } = {}) => {
      const all = [...topics.get(topic) ?? []]
      for (const message of all.slice(Number(from?.get(0) ?? 0))) await onMessages([message])
      return new Map([[0, BigInt(all.length)]])
    },
    send: async messages => {
      sends.push(messages)
      messages.forEach(append)
      // As the stage reports what it has read; nothing once the reports are used up.
      for (const { topic, headers: { replay_of: position } } of messages) {
        const report = reports.length > 1 ? reports.shift() : reports[0]
        if (position === undefined || report === undefined) continue
        const stage = topic.startsWith('feeds.') ? 'feed' : 'verify'
        append(decisionMessage(stage, { position, decision: { ...report, atMs: NOW_MS } }))
      }
    },
    readJobs: async wanted => {
      asked.push(...wanted)
      return jobs
    },
    sleep: async () => {},
    inspect: async (_open, work) => await work(inspector),
    now: () => NOW_MS,
  }
  const producer = {
    send: async (messages: readonly OutgoingMessage[]) => { messages.forEach(append) },
    close: async () => {},
  }
  const die = (stage: StageName, reason: string, change: Partial<RawMessage> = {}) => {
    const letters = [{ raw: liveMessage(change), reason }]
    sendDeadLetters(producer, stage, letters, () => DEAD_AT_MS).catch(() => {})
  }
  return { deps, topics, sends, die, reports, jobs, asked }
}
