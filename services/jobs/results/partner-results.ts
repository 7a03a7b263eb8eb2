import { deriveResultId, sealResult, type FeedCells } from '../../../schemas/feeds/seal.ts'
import type { FeedTypes } from '../../accounts/partners.ts'
import type { Bus, OutgoingMessage, Producer } from '../../runtime/kafka/bus.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import { splitBatches } from '../../runtime/platform/batch-writes.ts'
import { eventLoop } from '../../runtime/platform/limits.ts'
import { topicName } from '../../runtime/platform/topics.ts'
import { parseCell, parseRowChecks } from './columns.ts'

/** The result of one contact, identified by its offset in the partner's topic. */
type ContactResult = {
  readonly offset: number
  readonly reference: string
  readonly cells: FeedCells
}

/** The partner, partition and service that results are for. */
export type ResultTarget = {
  readonly partner: string
  /** The partner's oldest key that has not expired. */
  readonly key: Buffer
  readonly partition: number
  readonly service: string
}

export type PartnerResults = ReturnType<typeof connectPartnerResults>

/** Maximum length of a reference; longer ones are truncated in results. */
export const MAX_REFERENCE_CHARACTERS = 200

/** Results sealed before the event loop gets a turn, as sealing is CPU-bound. */
const SEALED_PER_TURN = 500

/** Connects the sender of results with one producer per partner of a stage. */
export function connectPartnerResults (
  { bus, codec }: { readonly bus: Pick<Bus, 'producer'>, readonly codec: Pick<Codec, 'encode'> },
  stage: string
) {
  const openProducer =
    createPartnerProducers(partner => bus.producer(`${stage}.results.${partner}`))
  const toMessage = async (of: ResultTarget, result: ContactResult): Promise<OutgoingMessage> => {
    const { partner, key, partition } = of
    const { offset, cells } = result
    const reference = truncate(result.reference)
    const service = truncate(of.service)
    const resultId = deriveResultId(partner, partition, offset)
    const sealed = sealResult(key, { partner, reference, resultId }, cells)
    return {
      topic: topicName('feeds.finished', { partner }),
      // A truncated reference may not be unique.
      key: reference === '' || reference !== result.reference ? resultId : reference,
      value: await codec.encode('feeds.finished-value', { resultId, reference, service, sealed }),
      headers: {},
    }
  }
  return {
    /**
     * Seals and sends results; resolves when all are acknowledged. Repeats have the same ids, so
     * partners can deduplicate them.
     */
    send: async (
      of: ResultTarget, results: readonly ContactResult[], signal?: AbortSignal
    ): Promise<void> => {
      const producer = openProducer(of.partner)
      const sending: Promise<void>[] = []
      for (const some of splitBatches(results, SEALED_PER_TURN)) {
        const messages = await Promise.all(some.map(result => toMessage(of, result)))
        const sent = producer.send(messages, signal)
        // Awaited below, all together.
        sent.catch(() => {})
        sending.push(sent)
        await eventLoop.yield('bulk', of.partner)
      }
      await Promise.all(sending)
    },
  }
}

/**
 * Truncates a name that a partner chose: a message with two names of a megabyte could not be sent.
 */
function truncate (name: string): string {
  return name.length <= MAX_REFERENCE_CHARACTERS
    ? name
    : name.slice(0, MAX_REFERENCE_CHARACTERS).toWellFormed()
}

const OMITTED_COLUMNS: ReadonlySet<string> = new Set(['row', 'duplicate_of'])

/**
 * The cells of a row for a partner: its columns, except blank ones and those that have a meaning
 * only within a job; then the checks behind its verdict, and the id of the job. `row` has the
 * fields of `listRowFields`, of which the packed checks come after the columns.
 */
export function feedCells (
  columns: readonly string[], row: readonly string[],
  { job, types }: { readonly job: string, readonly types: FeedTypes }
): FeedCells {
  const cells: Record<string, FeedCells[string]> = {}
  for (const [index, name] of columns.entries()) {
    const cell = row[index]
    if (cell === undefined || cell === '' || OMITTED_COLUMNS.has(name)) continue
    cells[name] = types === 'json' ? parseCell(name, cell) : cell
  }
  const checks = parseRowChecks(row[columns.indexOf('source')], row[columns.length])
  if (checks !== null) cells['checks'] = checks
  cells['job'] = job
  return cells
}

type Used = { readonly producer: Producer, sends: number }

const MAX_PRODUCERS = 100

/**
 * Keeps one producer per partner. A producer sends one request at a time and retries it until it is
 * acknowledged, so a shared one would block on an unavailable topic. Beyond the maximum the least
 * recently used idle producers are closed.
 */
function createPartnerProducers (
  open: (partner: string) => Producer
): (partner: string) => Pick<Producer, 'send'> {
  // Least recently used first.
  const producers = new Map<string, Used>()
  const use = (partner: string): Used => {
    const entry = producers.get(partner) ?? { producer: open(partner), sends: 0 }
    producers.delete(partner)
    producers.set(partner, entry)
    return entry
  }
  const closeIdle = () => {
    const idle = [...producers].filter(([, { sends }]) => sends === 0)
    const excess = Math.max(0, producers.size - MAX_PRODUCERS)
    for (const [partner, { producer }] of idle.slice(0, excess)) {
      producers.delete(partner)
      // An idle producer has nothing left to send, so a failure to close it is harmless.
      producer.close().catch(() => {})
    }
  }
  return partner => ({
    send: async (messages, signal) => {
      const used = use(partner)
      used.sends++
      closeIdle()
      try {
        await used.producer.send(messages, signal)
      } finally {
        used.sends--
      }
    },
  })
}
