import { open } from 'node:fs/promises'
import type { Journal } from '../../../schemas/types.ts'
import { toKafkaConnection, type KafkaSettings } from '../../runtime/kafka/connection.ts'
import { createTopicReader } from '../../runtime/kafka/topic-reader.ts'
import { createMessageMac, type MessageKeySettings } from '../../runtime/crypto/mac.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import { UsageError } from '../../runtime/platform/run-command.ts'
import { topicName } from '../../runtime/platform/topics.ts'
import {
  canonicalText, CHAIN_START, type ChainHead, createHeadsCodec, extendChain, hashAfter,
} from '../../money/journal.ts'
import type { JournalTexts } from './checks.ts'
import { breachUnless, type TenantBreaches } from './report.ts'

/** A range of a tenant's journal: the entries after one head, up to another. */
type Span = { readonly from: ChainHead, readonly head: ChainHead }

/** The journal in Kafka. Every call reads the topic. */
export type KafkaJournal = {
  /** The entries of some tenants, once each. */
  readonly texts: (tenants: ReadonlySet<string>) => Promise<ReadonlyMap<string, JournalTexts>>
  /**
   * The tenants whose spans Kafka contains completely, among messages since a time in Unix ms. It
   * holds one head per tenant and early entries in memory.
   */
  readonly containing: (
    spans: ReadonlyMap<string, Span>, sinceMs: number
  ) => Promise<ReadonlySet<string>>
}

/** Connects to Kafka for each read; calls reject when the brokers are not reachable. */
export function createKafkaJournal (
  settings: KafkaSettings & MessageKeySettings, codec: Codec, createReader = createTopicReader
): KafkaJournal {
  const read = async (onEntry: (entry: Journal) => void, limits: { readonly sinceMs?: number }) => {
    const reader = createReader({
      ...toKafkaConnection(settings), clientId: 'audit', mac: createMessageMac(settings),
    })
    await reader.read(topicName('wallet.journal'), async messages => {
      for (const { value } of messages) {
        if (value !== null) onEntry(await codec.decode('wallet.journal', value) as Journal)
      }
    }, limits)
  }
  return {
    texts: async wanted => {
      const tenants = new Map<string, Map<number, string[]>>()
      await read(entry => {
        if (!wanted.has(entry.tenant)) return
        const texts = tenants.get(entry.tenant) ?? new Map<number, string[]>()
        tenants.set(entry.tenant, texts)
        addText(texts, entry)
      }, {})
      return tenants
    },
    containing: async (spans, sinceMs) => {
      const walks = new Map([...spans].map(([tenant, span]) => [tenant, createSpanWalk(span)]))
      const complete = () => [...walks].filter(([, walk]) => walk.isComplete())
      if (complete().length < walks.size) {
        await read(entry => walks.get(entry.tenant)?.add(entry), { sinceMs })
      }
      return new Set(complete().map(([tenant]) => tenant))
    },
  }
}

function addText (texts: Map<number, string[]>, entry: Journal): void {
  const text = canonicalText(entry)
  const ofNumber = texts.get(entry.seq)
  if (ofNumber === undefined) texts.set(entry.seq, [text])
  else if (!ofNumber.includes(text)) ofNumber.push(text)
}

/** Two stages write the journal, so entries can arrive early, but by no more than this. */
const MAX_EARLY_ENTRIES = 10_000

/** Where another entry of a number is noticed: few, as every tenant has some in memory. */
const RECENT_ENTRIES = 16

/** Follows the chain of a span, which is not complete after two entries with one number. */
function createSpanWalk ({ from, head }: Span) {
  let at = from
  let hasOthers = false
  const early = new Map<number, Journal>()
  const recent = new Map<number, string>()
  const add = (entry: Journal): void => {
    if (entry.seq <= from.seq || entry.seq > head.seq) return
    const waiting = early.get(entry.seq)
    const text = waiting === undefined ? recent.get(entry.seq) : canonicalText(waiting)
    hasOthers ||= text !== undefined && text !== canonicalText(entry)
    const isWanted = entry.seq > at.seq && waiting === undefined
    if (isWanted && early.size < MAX_EARLY_ENTRIES) early.set(entry.seq, entry)
    for (let next = early.get(at.seq + 1); next !== undefined; next = early.get(at.seq + 1)) {
      early.delete(next.seq)
      at = extendChain(at, next)
      recent.set(next.seq, canonicalText(next))
      recent.delete(next.seq - RECENT_ENTRIES)
    }
  }
  return { add, isComplete: () => !hasOthers && at.hash === head.hash }
}

/** The last exported head of a tenant, and when it was exported, in Unix ms. */
type ExportedHead = ChainHead & { readonly at: number }

export type ExportedHeads = ReadonlyMap<string, ExportedHead>

/**
 * Reads a file of exports, one per line, and returns the greatest head of each tenant: the journal
 * may have been truncated before a later export.
 * @throws UsageError for a file that cannot be read, an unauthentic line, and an empty file.
 */
export async function readExportedHeads (
  file: string, settings: MessageKeySettings
): Promise<ExportedHeads> {
  const codec = createHeadsCodec(settings)
  const greatest = new Map<string, ExportedHead>()
  let number = 0
  for await (const line of readLines(file)) {
    number += 1
    const heads = codec.decode(line)
    if (heads === undefined) {
      throw new UsageError(`line ${number} of ${file} is not authentic: it was changed or ` +
        'truncated, or MESSAGE_KEYS lacks the key that signed it. Compare it with another copy ' +
        'of the file. You may delete a line that a crash truncated.')
    }
    for (const { tenant, ...head } of heads.tenants) {
      if (head.seq <= (greatest.get(tenant)?.seq ?? 0)) continue
      greatest.set(tenant, { ...head, at: heads.at })
    }
  }
  if (number === 0) {
    throw new UsageError(`${file} contains no exported journal head. Pass a file of ` +
      'JOURNAL_HEAD_TARGET that has at least one line.')
  }
  return greatest
}

async function * readLines (file: string): AsyncGenerator<string> {
  try {
    yield * (await open(file)).readLines()
  } catch (error) {
    throw new UsageError(`--journal-head: ${file} cannot be read: ${(error as Error).message}`)
  }
}

/** The journals of a tenant. */
type Journals = {
  /** Undefined when neither Redis nor the copy has the tenant. */
  readonly copy: readonly Journal[] | undefined
  /** Undefined when Kafka was not read. */
  readonly kafka: JournalTexts | undefined
}

/** Checks that both journals contain an exported head after exactly the entries it was made of. */
export function checkExportedHead (head: ExportedHead, { copy, kafka }: Journals): TenantBreaches {
  const exported = `entry ${head.seq} with hash ${head.hash} was exported at ` +
    `${new Date(head.at).toISOString()}`
  const breachWith = (holds: boolean, why: string) => breachUnless(holds, {
    rule: 'the journal contains the exported head', detail: `${exported}; ${why}`,
  })
  if (copy === undefined) return breachWith(false, 'neither Redis nor the copy has the tenant')
  const texts = new Map<number, string[]>()
  for (const entry of copy) addText(texts, entry)
  return [['ClickHouse', texts] as const, ['Kafka', kafka] as const]
    .flatMap(([where, journal]) => {
      if (journal === undefined) return []
      const { lacks, hashes: [hash] = [], hashes = [] } = chainsUpTo(head, journal)
      const what = lacks === undefined ? `has the hash ${hash} there` : `lacks entry ${lacks}`
      return breachWith(hashes.includes(head.hash), `the journal in ${where} ${what}`)
    })
}

/** Of the ways through numbers with several entries: six such numbers. */
const MAX_CHAINS = 64

/**
 * The hashes of the chain up to an exported head, or the first entry that the chain lacks. Entries
 * that were missing at the export are not part of the chain, even if they arrived later. Of several
 * entries with one number any may have been there first.
 */
function chainsUpTo (
  { seq: last, missing }: ChainHead, texts: JournalTexts
): { readonly hashes?: readonly string[], readonly lacks?: number } {
  let [seq, hashes] = [CHAIN_START.seq, [CHAIN_START.hash]]
  while (seq < last) {
    seq += 1
    if (missing.some(([from, to]) => seq >= from && seq <= to)) continue
    const ofNumber = texts.get(seq)
    if (ofNumber === undefined) return { lacks: seq }
    hashes = ofNumber.flatMap(text => hashes.map(hash => hashAfter(hash, text)))
      .slice(0, MAX_CHAINS)
  }
  return { hashes }
}
