import { randomUUID } from 'node:crypto'
import type { AccessEntry } from '../../../schemas/types.ts'
import { type AccessLog, accessText, type NumberedEntry, RESULT_SUFFIX } from './access-log.ts'
import { CHAIN_START, type ChainHead, extendByText, type Range } from '../../money/journal.ts'
import type { RecordMac } from '../../runtime/crypto/mac.ts'
import {
  dateTime, number, signedTable, type SignedRow, text,
} from '../../runtime/crypto/signed-table.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import type { TopicReader } from '../../runtime/kafka/topic-reader.ts'
import type { Clickhouse } from '../../runtime/platform/clickhouse.ts'
import { topicName } from '../../runtime/platform/topics.ts'

/** Some entries in ClickHouse. */
type AccessPage = {
  /** In order of seq; each entry once, however often it is stored. */
  readonly entries: readonly NumberedEntry[]
  /** The seqs of rows without a valid MAC. */
  readonly forged: readonly number[]
}

/** Which entries to list. */
type AccessFilter = {
  readonly organization: string
  readonly action?: string | undefined
  readonly actor?: string | undefined
  /** Only entries since then, in Unix ms. */
  readonly sinceMs?: number | undefined
  /** Only entries with a smaller seq. */
  readonly before?: number | undefined
  readonly limit: number
}

export type AccessCopy = ReturnType<typeof createAccessCopy>

/** The access log of one who writes entries and lists them. */
export type AccessStores = {
  readonly accessLog: AccessLog
  readonly accessCopy: Pick<AccessCopy, 'newest'>
}

const SEQS_PER_PAGE = 5_000

/**
 * The copy of the access log in ClickHouse: signed entries, inserted in any order. Rows without a
 * valid MAC are reported and left out of every list.
 */
export function createAccessCopy (clickhouse: Clickhouse, mac: RecordMac) {
  /** The entries of all organizations, between two seqs inclusive. */
  const range = async (from: number, to: number): Promise<AccessPage> => {
    const { entries, forged } = await TABLE.read(
      clickhouse.stream<SignedRow>(SELECT_RANGE, { from, to }), mac)
    return { entries, forged: forged.map(({ seq }) => seq) }
  }
  return {
    append: async (entries: readonly NumberedEntry[]): Promise<void> => {
      if (entries.length === 0) return
      const values = entries.map(entry => TABLE.toRow(entry, mac))
      // Of another insert of the same rows ClickHouse would drop the later one, though somebody may
      // have deleted them in between. Readers pass over duplicates.
      await clickhouse.insert({ table: 'access_log', values, token: randomUUID() })
    },
    range,

    /** The same after a seq, in pages. */
    pages: async function * (after: number): AsyncIterable<AccessPage> {
      for (let to = after; ;) {
        const from = await readNumber(clickhouse, SELECT_FIRST, { after: to })
        if (from === undefined) return
        to = from + SEQS_PER_PAGE - 1
        yield await range(from, to)
      }
    },

    /**
     * The entries of an organization, newest first, each once, and without attempts that have a
     * result. Only `pages` and `range` prove that nothing is missing.
     */
    newest: async (
      { organization: tenant, limit, ...filter }: AccessFilter
    ): Promise<readonly NumberedEntry[]> => {
      const { action = '', actor = '', sinceMs = 0, before = Number.MAX_SAFE_INTEGER } = filter
      const entries = new Map<string, NumberedEntry>()
      const rows = clickhouse.stream<SignedRow>(
        SELECT_NEWEST, { tenant, action, actor, sinceMs, before })
      for await (const row of rows) {
        const entry = TABLE.toEntry(row)
        const isNew = !entries.has(entry.entryId)
        if (isNew && TABLE.isSigned(row, entry, mac)) entries.set(entry.entryId, entry)
        if (entries.size === limit) break
      }
      return [...entries.values()]
    },

    /** How many numbers from 1 to `last` have a row, forged ones included. */
    count: async (last: number): Promise<number> =>
      await readNumber(clickhouse, SELECT_COUNT, { last }) ?? 0,
  }
}

/** The number of a query with at most one row. */
async function readNumber (
  clickhouse: Clickhouse, query: string, parameters: Record<string, unknown>
): Promise<number | undefined> {
  const [row] = await clickhouse.rows<{ readonly number: string }>(query, parameters)
  return row === undefined ? undefined : Number(row.number)
}

const TABLE = signedTable<NumberedEntry>({
  organization: text('tenant'),
  seq: number('seq'),
  entryId: text('entry_id'),
  at: dateTime('at'),
  actorKind: text('actor_kind'),
  actor: text('actor'),
  action: text('action'),
  target: text('target'),
  address: text('address'),
  outcome: text('outcome'),
  details: text('details'),
}, entry => ({
  table: 'access_log',
  tenant: entry.organization,
  id: String(entry.seq),
  content: accessText(entry),
}))

const SELECT = `SELECT ${TABLE.selected} FROM access_log`
const SELECT_RANGE = `
  ${SELECT} WHERE seq BETWEEN {from:UInt64} AND {to:UInt64} ORDER BY seq, mac`
const SELECT_FIRST = `
  SELECT seq AS number FROM access_log WHERE seq > {after:UInt64} ORDER BY seq LIMIT 1`
// GLOBAL, as several shards refuse a subquery over all of them.
const SELECT_NEWEST = `
  ${SELECT} WHERE tenant = {tenant:String} AND seq < {before:UInt64}
    AND ({action:String} = '' OR action = {action:String})
    AND ({actor:String} = '' OR actor = {actor:String})
    AND access_log.at >= fromUnixTimestamp64Milli({sinceMs:Int64})
    AND NOT (outcome = 'attempted' AND concat(entry_id, '${RESULT_SUFFIX}') GLOBAL IN (
      SELECT entry_id FROM access_log WHERE tenant = {tenant:String} AND outcome != 'attempted'))
  ORDER BY seq DESC`
const SELECT_COUNT = `
  SELECT uniqExact(seq) AS number FROM access_log WHERE seq BETWEEN 1 AND {last:UInt64}`

/** The name of the chain of the access log among exported heads, which tenants never have. */
export const ACCESS_CHAIN = 'access.log'

export type AccessWalkDeps = {
  /** Reads topics to their ends, without forged messages. */
  readonly read: (...call: Parameters<TopicReader['read']>) => Promise<unknown>
  readonly codec: Codec
  readonly copy: AccessCopy
  /** The highest number that is known to be copied. */
  readonly head: { readonly read: () => Promise<number> }
}

type WalkOptions = {
  /** A head that was exported earlier. */
  readonly exported?: ChainHead | undefined
  /** Receives each entry with the hash of the chain up to it, in order. */
  readonly onEntry?: (entry: NumberedEntry, hash: string) => void
}

/** What is wrong with the access log. */
type AccessFinding = { readonly rule: string, readonly detail: string }

export type AccessWalk = {
  readonly head: ChainHead
  readonly findings: readonly AccessFinding[]
}

export const ACCESS_RULES = {
  numbers: 'the access log is numbered 1 to n',
  stores: 'Kafka and ClickHouse have the same entries of the access log',
  signed: 'every row of the access log is signed by a service',
  exported: 'the access log contains the exported head',
} as const

const WINDOW = 2_000
/** An entry that is older than this is in ClickHouse, unless `ledger` does not run. */
const MAX_COPY_MS = 600_000

/**
 * Reads the access log in Kafka and in ClickHouse side by side, in bounded memory. It finds each
 * entry that was removed, changed, added or moved in one of them, and entries that were removed at
 * the end of both.
 */
export async function walkAccessLog (
  { read, codec, copy, head }: AccessWalkDeps, options: WalkOptions
): Promise<AccessWalk> {
  const startedMs = Date.now()
  const copied = await head.read()
  const mustBeCopied = ({ seq, at }: NumberedEntry) =>
    seq <= copied || at < startedMs - MAX_COPY_MS
  const walk = createWalk(mustBeCopied, options)
  const at = { from: 1, last: Math.max(copied, options.exported?.seq ?? 0) }
  let topic = new Map<number, NumberedEntry>()
  const compareUpTo = async (to: number) => {
    walk.compare([at.from, to], topic, await copy.range(at.from, to))
    at.from = to + 1
    topic = new Map()
  }
  await read(topicName('access.log'), async messages => {
    for (const { value, offset } of messages) {
      if (value === null) continue
      const seq = Number(offset) + 1
      while (seq >= at.from + WINDOW) await compareUpTo(at.from + WINDOW - 1)
      topic.set(seq, { ...await codec.decode('access.log', value) as AccessEntry, seq })
      at.last = Math.max(at.last, seq)
    }
  })
  while (at.from <= at.last) await compareUpTo(Math.min(at.from + WINDOW - 1, at.last))
  walk.addUnknown(await copy.range(at.from, Number.MAX_SAFE_INTEGER))
  return walk.result()
}

type Page = Awaited<ReturnType<AccessCopy['range']>>

function createWalk (
  mustBeCopied: (entry: NumberedEntry) => boolean, { exported, onEntry = () => {} }: WalkOptions
) {
  let head = CHAIN_START
  let isExported = exported === undefined || exported.missing.length > 0
  const findings = createFindings()
  const compareOne = (
    seq: number, topic: NumberedEntry | undefined, stored: readonly NumberedEntry[]
  ) => {
    const entry = topic ?? stored[0]
    if (entry === undefined) return findings.add('lost', seq)
    if (topic === undefined) findings.add('kafka', seq)
    if (stored.length === 0 && mustBeCopied(entry)) findings.add('clickhouse', seq)
    const isOther = (copy: NumberedEntry) => accessText(copy) !== accessText(entry)
    if (stored.some(isOther)) findings.add('different', seq)
    head = extendByText(head, seq, () => accessText(entry))
    if (seq === exported?.seq && head.hash === exported.hash) isExported = true
    onEntry(entry, head.hash)
  }
  return {
    compare: ([from, to]: Range, topic: ReadonlyMap<number, NumberedEntry>, page: Page): void => {
      const stored = Map.groupBy(page.entries, ({ seq }) => seq)
      for (const seq of page.forged) findings.add('forged', seq)
      for (let seq = from; seq <= to; seq += 1) {
        compareOne(seq, topic.get(seq), stored.get(seq) ?? [])
      }
    },
    /** Entries after the last one of Kafka; those of the last minutes may have come since. */
    addUnknown: (page: Page): void => {
      for (const seq of page.forged) findings.add('forged', seq)
      for (const entry of page.entries) if (mustBeCopied(entry)) findings.add('kafka', entry.seq)
    },
    result: (): AccessWalk => ({
      head,
      findings: [
        ...findings.list(),
        ...isExported
          ? []
          : [{
              rule: ACCESS_RULES.exported,
              detail: `entry ${exported?.seq} had the hash ${exported?.hash} when it was ` +
                'exported; it or an entry before it was removed or changed',
            }],
      ],
    }),
  }
}

const KINDS = {
  lost: [ACCESS_RULES.numbers, 'missing in Kafka and in ClickHouse'],
  kafka: [ACCESS_RULES.stores, 'missing in Kafka'],
  clickhouse: [ACCESS_RULES.stores, 'missing in ClickHouse'],
  different: [ACCESS_RULES.stores, 'different in ClickHouse'],
  forged: [ACCESS_RULES.signed, 'in a row of ClickHouse without an authentic MAC'],
} as const

/** Numbers by what is wrong with them, as ranges. */
function createFindings () {
  const ranges = new Map<keyof typeof KINDS, [first: number, last: number][]>()
  return {
    add: (kind: keyof typeof KINDS, seq: number): void => {
      const rangesOfKind = ranges.get(kind) ?? []
      ranges.set(kind, rangesOfKind)
      const last = rangesOfKind.at(-1)
      if (last !== undefined && (seq === last[1] || seq === last[1] + 1)) last[1] = seq
      else rangesOfKind.push([seq, seq])
    },
    list: (): readonly AccessFinding[] => [...ranges].flatMap(([kind, rangesOfKind]) =>
      rangesOfKind.map(([first, last]) => {
        const [rule, what] = KINDS[kind]
        const subject = first === last ? `entry ${first} is` : `entries ${first} to ${last} are`
        return { rule, detail: `${subject} ${what}` }
      })),
  }
}

/** The head of the chain in ClickHouse, from an earlier one on. */
export async function readAccessHead (
  copy: Pick<AccessCopy, 'pages'>, from: ChainHead
): Promise<ChainHead> {
  let head = from
  for await (const { entries } of copy.pages(from.seq)) {
    for (const entry of entries) {
      head = extendByText(head, entry.seq, () => accessText(entry))
    }
  }
  return head
}
