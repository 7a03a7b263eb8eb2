import { createHash } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import { START, type ChainHead, type Link } from './journal-chain.ts'

/** The audit copy of the money journal in ClickHouse. */
export type JournalCopy = {
  /** The end of a tenant's chain; its start when nothing is stored yet. */
  readonly head: (tenant: string) => Promise<ChainHead>
  readonly append: (links: readonly Link[]) => Promise<void>
  /** All entries of a tenant by seq; an entry stored several times comes several times. */
  readonly read: (tenant: string) => Promise<readonly Link[]>
}

/** Entries are written many an insert; the same entries again leave what is there as it is. */
export function createJournalCopy (clickhouse: ClickHouseClient): JournalCopy {
  const head = async (tenant: string): Promise<ChainHead> => {
    const rows = await select<{ seq: string, hash: string }>(clickhouse, tenant,
      'SELECT seq, hash FROM journal WHERE tenant = {tenant:String} ORDER BY seq DESC LIMIT 1')
    const [last] = rows
    return last === undefined ? START : { seq: Number(last.seq), hash: last.hash }
  }
  const append = async (links: readonly Link[]) => {
    if (links.length === 0) return
    const token = createHash('sha256').update(links.map(({ hash }) => hash).join()).digest('hex')
    await clickhouse.insert({
      table: 'journal',
      columns: ['tenant', ...COLUMNS],
      values: links.map(rowOf),
      format: 'JSONEachRow',
      clickhouse_settings: { insert_deduplication_token: token },
    })
  }
  const read = async (tenant: string) => {
    const rows = await select<StoredEntry>(clickhouse, tenant, SELECT_ALL)
    return rows.map(row => linkOf(tenant, row))
  }
  return { head, append, read }
}

const COLUMNS = [
  'seq', 'entry_id', 'type', 'job', 'amount_micros', 'charge_micros', 'available_micros',
  'reserved_micros', 'charged_micros', 'funded_micros', 'at', 'reason', 'header_base64', 'prev',
  'hash',
] as const

const SELECT_ALL = `
  SELECT DISTINCT seq, entry_id, type, job, amount_micros, charge_micros, available_micros,
    reserved_micros, charged_micros, funded_micros, toUnixTimestamp64Milli(at) AS at, reason,
    base64Encode(header) AS header_base64, prev, hash
  FROM journal WHERE tenant = {tenant:String} ORDER BY seq`

/** Integers of 64 bits come as text. */
type StoredEntry = Readonly<Record<typeof COLUMNS[number], string>>

async function select<T> (
  clickhouse: ClickHouseClient, tenant: string, query: string
): Promise<readonly T[]> {
  const answer = await clickhouse.query({ query, query_params: { tenant }, format: 'JSONEachRow' })
  return await answer.json<T>()
}

function rowOf ({ entry, prev, hash }: Link): object {
  return {
    tenant: entry.tenant,
    seq: entry.seq,
    entry_id: entry.entryId,
    type: entry.type,
    job: entry.job,
    amount_micros: entry.amountMicros,
    charge_micros: entry.chargeMicros,
    available_micros: entry.availableMicros,
    reserved_micros: entry.reservedMicros,
    charged_micros: entry.chargedMicros,
    funded_micros: entry.fundedMicros,
    at: new Date(entry.at).toISOString(),
    reason: entry.reason,
    header_base64: entry.header?.toString('base64') ?? '',
    prev,
    hash,
  }
}

function linkOf (tenant: string, row: StoredEntry): Link {
  const entry = {
    tenant,
    seq: Number(row.seq),
    entryId: row.entry_id,
    type: row.type,
    job: row.job,
    amountMicros: Number(row.amount_micros),
    chargeMicros: Number(row.charge_micros),
    availableMicros: Number(row.available_micros),
    reservedMicros: Number(row.reserved_micros),
    chargedMicros: Number(row.charged_micros),
    fundedMicros: Number(row.funded_micros),
    at: Number(row.at),
    reason: row.reason,
    header: row.header_base64 === '' ? null : Buffer.from(row.header_base64, 'base64'),
  }
  return { entry, prev: row.prev, hash: row.hash }
}
