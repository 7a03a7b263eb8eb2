import { createHash } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import { insertRows } from '../lib/clickhouse.ts'
import type { ChainHead, Link } from './journal-chain.ts'

/** The audit copy of the money journal in ClickHouse. */
export type JournalCopy = {
  /** The ends of tenants' chains; tenants of whom nothing is stored yet are left out. */
  readonly heads: (tenants: readonly string[]) => Promise<ReadonlyMap<string, ChainHead>>
  readonly append: (links: readonly Link[]) => Promise<void>
  /** All entries of a tenant by seq; an entry stored several times comes several times. */
  readonly read: (tenant: string) => Promise<readonly Link[]>
}

/** Entries are written many an insert; the same entries again leave what is there as it is. */
export function createJournalCopy (clickhouse: ClickHouseClient): JournalCopy {
  const heads = async (tenants: readonly string[]) => {
    if (tenants.length === 0) return new Map<string, ChainHead>()
    const rows = await select<{ tenant: string, seq: string, hash: string }>(
      clickhouse, SELECT_HEADS, { tenants })
    return new Map(rows.map(({ tenant, seq, hash }) => [tenant, { seq: Number(seq), hash }]))
  }
  const append = async (links: readonly Link[]) => {
    if (links.length === 0) return
    const token = createHash('sha256').update(links.map(({ hash }) => hash).join()).digest('hex')
    const values = links.map(rowOf)
    const columns = ['tenant', ...COLUMNS]
    await insertRows(clickhouse, { table: 'journal', columns, values, token })
  }
  const read = async (tenant: string) => {
    const rows = await select<StoredEntry>(clickhouse, SELECT_ALL, { tenant })
    return rows.map(row => linkOf(tenant, row))
  }
  return { heads, append, read }
}

const COLUMNS = [
  'seq', 'entry_id', 'type', 'job', 'amount_micros', 'charge_micros', 'available_micros',
  'reserved_micros', 'charged_micros', 'funded_micros', 'at', 'reason', 'header_base64', 'prev',
  'hash',
] as const

const SELECT_HEADS = `
  SELECT tenant, max(seq) AS seq, argMax(hash, journal.seq) AS hash FROM journal
  WHERE tenant IN {tenants:Array(String)} GROUP BY tenant`

const SELECT_ALL = `
  SELECT DISTINCT seq, entry_id, type, job, amount_micros, charge_micros, available_micros,
    reserved_micros, charged_micros, funded_micros, toUnixTimestamp64Milli(at) AS at, reason,
    base64Encode(header) AS header_base64, prev, hash
  FROM journal WHERE tenant = {tenant:String} ORDER BY seq`

/** Integers of 64 bits come as text. */
type StoredEntry = Readonly<Record<typeof COLUMNS[number], string>>

async function select<T> (
  clickhouse: ClickHouseClient, query: string, parameters: Record<string, unknown>
): Promise<readonly T[]> {
  const answer = await clickhouse.query({
    query, query_params: parameters, format: 'JSONEachRow',
  })
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
