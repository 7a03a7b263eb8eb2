import { randomUUID } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import type { RecordMac, SignedRecord } from '../../runtime/crypto/mac.ts'
import { insertRows, streamRows } from '../../runtime/platform/clickhouse.ts'
import { type AccessLog, accessText, type NumberedEntry, RESULT_SUFFIX } from './access-log.ts'

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
export function createAccessCopy (
  clickhouse: Pick<ClickHouseClient, 'query' | 'insert'>, mac: RecordMac
) {
  const isSigned = (row: Row) => mac.isAuthentic(row.mac, signedOf(entryOf(row)))
  /** The entries of all organizations, between two seqs inclusive. */
  const range = async (from: number, to: number): Promise<AccessPage> => {
    const entries = new Map<string, NumberedEntry>()
    const forged: number[] = []
    for await (const row of streamRows<Row>(clickhouse, SELECT_RANGE, { from, to })) {
      const entry = entryOf(row)
      if (isSigned(row)) entries.set(accessText(entry), entry)
      else forged.push(entry.seq)
    }
    return { entries: [...entries.values()], forged }
  }
  return {
    append: async (entries: readonly NumberedEntry[]): Promise<void> => {
      if (entries.length === 0) return
      const values = entries.map(entry => rowOf(entry, mac))
      // Of another insert of the same rows ClickHouse would drop the later one, though somebody may
      // have deleted them in between. Readers pass over duplicates.
      const token = randomUUID()
      await insertRows(clickhouse, { table: 'access_log', columns: COLUMNS, values, token })
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
      const rows = streamRows<Row>(
        clickhouse, SELECT_NEWEST, { tenant, action, actor, sinceMs, before })
      for await (const row of rows) {
        if (!entries.has(row.entry_id) && isSigned(row)) entries.set(row.entry_id, entryOf(row))
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
  clickhouse: Pick<ClickHouseClient, 'query'>, query: string, parameters: Record<string, unknown>
): Promise<number | undefined> {
  const answer = await clickhouse.query({
    query, query_params: parameters, format: 'JSONEachRow',
  })
  const [row] = await answer.json<{ readonly number: string }>()
  return row === undefined ? undefined : Number(row.number)
}

const signedOf = (entry: NumberedEntry): SignedRecord => ({
  table: 'access_log',
  tenant: entry.organization,
  id: String(entry.seq),
  content: accessText(entry),
})

const COLUMNS = [
  'tenant', 'seq', 'entry_id', 'at', 'actor_kind', 'actor', 'action', 'target', 'address',
  'outcome', 'details', 'mac',
] as const

/** Integers of 64 bits come as text. */
type Row = Readonly<Record<typeof COLUMNS[number], string>>

const SELECT = `
  SELECT tenant, seq, entry_id, toUnixTimestamp64Milli(at) AS at, actor_kind, actor, action, target,
    address, outcome, details, mac
  FROM access_log`
const SELECT_RANGE = `
  ${SELECT} WHERE seq BETWEEN {from:UInt64} AND {to:UInt64} ORDER BY seq, mac`
const SELECT_FIRST = `
  SELECT seq AS number FROM access_log WHERE seq > {after:UInt64} ORDER BY seq LIMIT 1`
const SELECT_NEWEST = `
  ${SELECT} WHERE tenant = {tenant:String} AND seq < {before:UInt64}
    AND ({action:String} = '' OR action = {action:String})
    AND ({actor:String} = '' OR actor = {actor:String})
    AND access_log.at >= fromUnixTimestamp64Milli({sinceMs:Int64})
    AND NOT (outcome = 'attempted' AND concat(entry_id, '${RESULT_SUFFIX}') IN (
      SELECT entry_id FROM access_log WHERE tenant = {tenant:String} AND outcome != 'attempted'))
  ORDER BY seq DESC`
const SELECT_COUNT = `
  SELECT uniqExact(seq) AS number FROM access_log WHERE seq BETWEEN 1 AND {last:UInt64}`

function rowOf (entry: NumberedEntry, mac: RecordMac) {
  return {
    tenant: entry.organization,
    seq: entry.seq,
    entry_id: entry.entryId,
    at: new Date(entry.at).toISOString(),
    actor_kind: entry.actorKind,
    actor: entry.actor,
    action: entry.action,
    target: entry.target,
    address: entry.address,
    outcome: entry.outcome,
    details: entry.details,
    mac: mac.sign(signedOf(entry)),
  }
}

function entryOf (row: Row): NumberedEntry {
  return {
    organization: row.tenant,
    seq: Number(row.seq),
    entryId: row.entry_id,
    at: Number(row.at),
    actorKind: row.actor_kind,
    actor: row.actor,
    action: row.action,
    target: row.target,
    address: row.address,
    outcome: row.outcome,
    details: row.details,
  }
}
