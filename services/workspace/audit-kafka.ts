import type { Journal } from '../../schemas/types.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../lib/kafka/connection.ts'
import { createTopicReader } from '../lib/kafka/topic-reader.ts'
import type { MessageKeySettings } from '../lib/mac.ts'
import { createMessageMac } from '../lib/message-mac.ts'
import type { Codec } from '../lib/registry.ts'
import { topicName } from '../lib/topics.ts'
import { canonicalText, follow, type ChainHead } from '../records/journal-chain.ts'
import type { JournalTexts } from './audit-journal.ts'

/** A part of a tenant's chain: the entries beyond a head, up to another. */
export type Span = { readonly from: ChainHead, readonly head: ChainHead }

/** The journal as Kafka has it. */
export type KafkaJournal = {
  /** The entries of some tenants; of two with one number the first one counts. */
  readonly texts: (tenants: ReadonlySet<string>) => Promise<ReadonlyMap<string, JournalTexts>>
  /**
   * Those tenants of whom Kafka has the very entries of the span, among what was written since a
   * moment (Unix ms). It keeps a head a tenant, and entries that come before their turn.
   */
  readonly follows: (
    spans: ReadonlyMap<string, Span>, sinceMs: number
  ) => Promise<ReadonlySet<string>>
}

/** Reads the topic anew each time. */
export function createKafkaJournal (
  settings: KafkaSettings & MessageKeySettings, codec: Pick<Codec, 'decode'>,
  createReader = createTopicReader
): KafkaJournal {
  const read = async (onEntry: (entry: Journal) => void, limits: { readonly sinceMs?: number }) => {
    const reader = createReader({
      ...kafkaConnectionOf(settings), clientId: 'audit', mac: createMessageMac(settings),
    })
    await reader.read(topicName('wallet.journal'), async messages => {
      for (const { value } of messages) {
        if (value !== null) onEntry(await codec.decode('wallet.journal', value) as Journal)
      }
    }, limits)
  }
  return {
    texts: async wanted => {
      const tenants = new Map<string, Map<number, string>>()
      await read(entry => {
        if (!wanted.has(entry.tenant)) return
        const known = tenants.get(entry.tenant) ?? new Map<number, string>()
        tenants.set(entry.tenant, known)
        if (!known.has(entry.seq)) known.set(entry.seq, canonicalText(entry))
      }, {})
      return tenants
    },
    follows: async (spans, sinceMs) => {
      const walks = new Map([...spans].map(([tenant, span]) => [tenant, createWalk(span)]))
      const arrived = () => [...walks].filter(([, walk]) => walk.hasArrived())
      if (arrived().length < walks.size) {
        await read(entry => walks.get(entry.tenant)?.add(entry), { sinceMs })
      }
      return new Set(arrived().map(([tenant]) => tenant))
    },
  }
}

/** Two stages write the journal, so entries pass each other, but by no more than this. */
const MAX_AHEAD = 10_000

/** Follows the entries of a span, of which the first one with each number counts. */
function createWalk ({ from, head }: Span) {
  let at = from
  const ahead = new Map<number, Journal>()
  const add = (entry: Journal): void => {
    const isWanted = entry.seq > at.seq && entry.seq <= head.seq && !ahead.has(entry.seq)
    if (isWanted && ahead.size < MAX_AHEAD) ahead.set(entry.seq, entry)
    for (let next = ahead.get(at.seq + 1); next !== undefined; next = ahead.get(at.seq + 1)) {
      ahead.delete(next.seq)
      at = follow(at, next)
    }
  }
  return { add, hasArrived: () => at.hash === head.hash }
}
