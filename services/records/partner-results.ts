import { setImmediate } from 'node:timers/promises'
import {
  resultIdOf, sealResult, type FeedCells,
} from '../../schemas/feeds/seal.ts'
import type { OutgoingMessage, Producer } from '../lib/bus.ts'
import type { Codec } from '../lib/registry.ts'
import { topicName } from '../lib/topics.ts'

/** The result of one contact, which is named by its place in its partner's topic. */
export type ContactResult = {
  readonly offset: number
  readonly reference: string
  readonly cells: FeedCells
}

/** Contacts of one partition of a partner's topic, all of one service. */
export type ResultsOf = {
  readonly partner: string
  /** The partner's key. */
  readonly key: Buffer
  readonly partition: number
  readonly service: string
}

export type PartnerResults = {
  /**
   * Seals and sends results; resolves when all are acknowledged. What is sent again has the same
   * ids, so a partner knows repeats.
   */
  readonly send: (
    of: ResultsOf, results: readonly ContactResult[], signal?: AbortSignal,
  ) => Promise<void>
}

type Parts = {
  readonly codec: Pick<Codec, 'encode'>
  readonly producer: Producer
}

/** Sealing is work: after so many results heartbeats and others get their turn. */
const SEALED_AT_ONCE = 500

/** Hands results to partners. */
export function createPartnerResults ({ codec, producer }: Parts): PartnerResults {
  const messageOf = async (of: ResultsOf, result: ContactResult): Promise<OutgoingMessage> => {
    const { partner, key, partition, service } = of
    const { offset, reference, cells } = result
    const resultId = resultIdOf(partner, partition, offset)
    const sealed = sealResult(key, { partner, reference, resultId }, cells)
    return {
      topic: topicName('feeds.finished', { partner }),
      key: reference === '' ? resultId : reference,
      value: await codec.encode('feeds.finished-value', { resultId, reference, service, sealed }),
      headers: {},
    }
  }
  return {
    send: async (of, results, signal) => {
      const sending: Promise<void>[] = []
      for (let from = 0; from < results.length; from += SEALED_AT_ONCE) {
        const some = results.slice(from, from + SEALED_AT_ONCE)
        const messages = await Promise.all(some.map(result => messageOf(of, result)))
        const sent = producer.send(messages, signal)
        // Judged below, all together.
        sent.catch(() => {})
        sending.push(sent)
        await setImmediate()
      }
      await Promise.all(sending)
    },
  }
}

const LEFT_OUT: ReadonlySet<string> = new Set(['row', 'duplicate_of'])

/**
 * What a partner is told of a row: the columns of the result file that are not blank, without those
 * that only mean something within a job, and the job.
 */
export function feedCells (
  columns: readonly string[], row: readonly string[], job: string
): FeedCells {
  const cells: Record<string, string> = {}
  for (const [index, name] of columns.entries()) {
    const cell = row[index]
    if (cell !== undefined && cell !== '' && !LEFT_OUT.has(name)) cells[name] = cell
  }
  cells['job'] = job
  return cells
}
