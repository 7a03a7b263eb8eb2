import { createHash } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import { insertRows, streamRows } from '../lib/clickhouse.ts'
import type { RecordMac, SignedRecord } from '../lib/record-mac.ts'
import { nextHash, type ChainHead, type Link } from './journal-chain.ts'

/** What is stored of a tenant. */
export type StoredJournal = {
  /** By seq, each entry once, however often it is stored. */
  readonly links: readonly Link[]
  /** Rows that no service stored, by the seq they claim. */
  readonly forged: readonly number[]
}

/**
 * The audit copy of the money journal in ClickHouse. Rows that no service has signed are reported
 * and left out wherever it is read.
 */
export type JournalCopy = {
  /** The ends of tenants' chains; tenants of whom nothing is stored yet are left out. */
  readonly heads: (tenants: readonly string[]) => Promise<ReadonlyMap<string, ChainHead>>
  readonly append: (links: readonly Link[]) => Promise<void>
  readonly read: (tenant: string) => Promise<StoredJournal>
  /** The last entries of a tenant, or the last ones before a seq, newest first. */
  readonly readNewest: (
    tenant: string, options: { readonly limit: number, readonly before?: number | undefined }
  ) => Promise<readonly Link[]>
}

/** Entries are written many an insert; of the same entries again, one is read. */
export function createJournalCopy (
  clickhouse: Pick<ClickHouseClient, 'query' | 'insert'>, mac: RecordMac
): JournalCopy {
  const isSigned = (tenant: string, row: StoredEntry, { entry, hash }: Link) =>
    mac.isAuthentic(row.mac, signedOf(tenant, entry.seq, hash))
  const append = async (links: readonly Link[]) => {
    if (links.length === 0) return
    const values = links.map(link => rowOf(link, mac))
    // Of MACs: an attacker who can predict the token can make ClickHouse drop the insert.
    const token = createHash('sha256').update(values.map(row => row.mac).join()).digest('hex')
    const columns = ['tenant', ...COLUMNS]
    await insertRows(clickhouse, { table: 'journal', columns, values, token })
  }
  const read = async (tenant: string) => {
    const links: Link[] = []
    const forged: number[] = []
    for await (const row of streamRows<StoredEntry>(clickhouse, SELECT_ALL, { tenant })) {
      const link = linkOf(tenant, row)
      if (!isSigned(tenant, row, link)) forged.push(link.entry.seq)
      else if (link.hash !== links.at(-1)?.hash) links.push(link)
    }
    return { links, forged }
  }
  const readNewest: JournalCopy['readNewest'] = async (
    tenant, { limit, before = Number.MAX_SAFE_INTEGER }
  ) => {
    const links: Link[] = []
    const rows = streamRows<StoredEntry>(clickhouse, SELECT_BEFORE, { tenant, before })
    for await (const row of rows) {
      const link = linkOf(tenant, row)
      if (link.entry.seq === links.at(-1)?.entry.seq || !isSigned(tenant, row, link)) continue
      if (links.push(link) === limit) break
    }
    return links
  }
  const heads = async (tenants: readonly string[]) => {
    const ends = new Map<string, ChainHead>()
    if (tenants.length === 0) return ends
    const found = streamRows<StoredHead>(clickhouse, SELECT_HEADS, { tenants })
    const forged: string[] = []
    for await (const { tenant, seq, hash, mac: given } of found) {
      const head = { seq: Number(seq), hash }
      if (mac.isAuthentic(given, signedOf(tenant, head.seq, hash))) ends.set(tenant, head)
      else forged.push(tenant)
    }
    for (const tenant of forged) {
      const [last] = await readNewest(tenant, { limit: 1 })
      if (last !== undefined) ends.set(tenant, { seq: last.entry.seq, hash: last.hash })
    }
    return ends
  }
  return { heads, append, read, readNewest }
}

/** A hash says what the entry and all before it say, so nothing else has to be signed. */
const signedOf = (tenant: string, seq: number, hash: string): SignedRecord =>
  ({ table: 'journal', tenant, id: String(seq), content: hash })

const COLUMNS = [
  'seq', 'entry_id', 'type', 'job', 'amount_micros', 'charge_micros', 'available_micros',
  'reserved_micros', 'charged_micros', 'funded_micros', 'at', 'reason', 'header_base64', 'prev',
  'hash', 'mac',
] as const

/** The greatest by all that is read, so that of several rows with one seq it is always the same. */
const SELECT_HEADS = `
  SELECT tenant, last.1 AS seq, last.2 AS hash, last.3 AS mac
  FROM (
    SELECT tenant, max((seq, hash, mac)) AS last FROM journal
    WHERE tenant IN {tenants:Array(String)} GROUP BY tenant)`

const SELECT = `
  SELECT seq, entry_id, type, job, amount_micros, charge_micros, available_micros,
    reserved_micros, charged_micros, funded_micros, toUnixTimestamp64Milli(at) AS at, reason,
    base64Encode(header) AS header_base64, prev, mac
  FROM journal WHERE tenant = {tenant:String}`
const SELECT_ALL = `${SELECT} ORDER BY seq, hash`
const SELECT_BEFORE = `${SELECT} AND seq < {before:UInt64} ORDER BY seq DESC`

type StoredHead = Readonly<Record<'tenant' | 'seq' | 'hash' | 'mac', string>>

/** Integers of 64 bits come as text. */
type StoredEntry = Readonly<Record<Exclude<typeof COLUMNS[number], 'hash'>, string>>

function rowOf ({ entry, prev, hash }: Link, mac: RecordMac) {
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
    mac: mac.sign(signedOf(entry.tenant, entry.seq, hash)),
  }
}

/** The hash is not that of the row, but the one of what the row says. */
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
  return { entry, prev: row.prev, hash: nextHash(row.prev, entry) }
}
