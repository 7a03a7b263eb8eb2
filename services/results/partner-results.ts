import {
  resultIdOf, sealResult, type FeedCells,
} from '../../schemas/feeds/seal.ts'
import type { Bus, OutgoingMessage, Producer } from '../kafka/bus.ts'
import type { Codec } from '../kafka/registry.ts'
import { topicName } from '../platform/topics.ts'
import { yieldToEventLoop } from '../platform/event-loop.ts'
import { createPartnerProducers } from './partner-producers.ts'

/** The result of one contact, which is named by its place in its partner's topic. */
export type ContactResult = {
  readonly offset: number
  readonly reference: string
  readonly cells: FeedCells
}

/** Contacts of one partition of a partner's topic, all of one service. */
export type ResultsOf = {
  readonly partner: string
  /** The partner's oldest key that has not expired. */
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

type Deps = {
  readonly codec: Pick<Codec, 'encode'>
  /** A producer that no other partner waits for. */
  readonly producerOf: (partner: string) => Pick<Producer, 'send'>
}

/** As contacts are asked for; longer names are those of contacts that are told so. */
export const MAX_REFERENCE_CHARACTERS = 200

/** Sealing is work: after so many results heartbeats and others get their turn. */
const SEALED_AT_ONCE = 500

/** Hands results to partners. */
export function createPartnerResults ({ codec, producerOf }: Deps): PartnerResults {
  const messageOf = async (of: ResultsOf, result: ContactResult): Promise<OutgoingMessage> => {
    const { partner, key, partition } = of
    const { offset, cells } = result
    const reference = shortName(result.reference)
    const service = shortName(of.service)
    const resultId = resultIdOf(partner, partition, offset)
    const sealed = sealResult(key, { partner, reference, resultId }, cells)
    return {
      topic: topicName('feeds.finished', { partner }),
      // A name that was cut may be that of many.
      key: reference === '' || reference !== result.reference ? resultId : reference,
      value: await codec.encode('feeds.finished-value', { resultId, reference, service, sealed }),
      headers: {},
    }
  }
  return {
    send: async (of, results, signal) => {
      const producer = producerOf(of.partner)
      const sending: Promise<void>[] = []
      for (let from = 0; from < results.length; from += SEALED_AT_ONCE) {
        const some = results.slice(from, from + SEALED_AT_ONCE)
        const messages = await Promise.all(some.map(result => messageOf(of, result)))
        const sent = producer.send(messages, signal)
        // Judged below, all together.
        sent.catch(() => {})
        sending.push(sent)
        await yieldToEventLoop('bulk', of.partner)
      }
      await Promise.all(sending)
    },
  }
}

/** Results by producers of one service, one a partner. */
export function connectPartnerResults (
  { bus, codec }: Pick<Deps, 'codec'> & { readonly bus: Pick<Bus, 'producer'> }, service: string
): PartnerResults {
  const open = (partner: string) => bus.producer(`${service}.results.${partner}`)
  return createPartnerResults({ codec, producerOf: createPartnerProducers(open) })
}

/**
 * Names that partners gave as far as they may be long: a message with two of a megabyte could not
 * be sent, today or after any restart.
 */
function shortName (name: string): string {
  return name.length <= MAX_REFERENCE_CHARACTERS
    ? name
    : name.slice(0, MAX_REFERENCE_CHARACTERS).toWellFormed()
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
