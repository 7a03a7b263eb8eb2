import type { ClickHouseClient } from '@clickhouse/client'
import type { Completed } from '../../../schemas/types.ts'
import type { RecordMac } from '../../runtime/crypto/mac.ts'
import { insertRows, insertToken } from '../../runtime/platform/clickhouse.ts'
import { ARCHIVE_COLUMNS, type ArchivedJob, archiveRow } from './archive.ts'
import { BLOCK_COLUMNS, blockRow } from './result-blocks.ts'

/** A result block, or the final record of a job. */
export type SettledRow = { readonly block: Completed } | { readonly archived: ArchivedJob }

/**
 * Stores blocks and final records in one insert: an insert has a fixed cost, and the end of a small
 * job needs both. Idempotent like the inserts of each.
 */
export function createSettledRows (
  clickhouse: Pick<ClickHouseClient, 'insert'>, mac: RecordMac
): (rows: readonly SettledRow[]) => Promise<void> {
  return async rows => {
    if (rows.length === 0) return
    const values = rows.map(row =>
      'block' in row ? blockRow(row.block) : archiveRow(mac, row.archived))
    const names = values.map(value => 'digest' in value ? value.digest : value.mac)
    await insertRows(clickhouse, {
      table: 'settled', columns: COLUMNS, values, token: insertToken(names),
    })
  }
}

const COLUMNS = [...new Set([...BLOCK_COLUMNS, ...ARCHIVE_COLUMNS])]
