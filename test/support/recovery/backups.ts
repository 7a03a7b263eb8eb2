import { readFileSync } from 'node:fs'
import { vi } from 'vitest'
import { runCommand } from '../admin.ts'

const guide = readFileSync(new URL('../../../deploy/docs/recovery.md', import.meta.url), 'utf8')

/** What the command backup prints. */
type Backup = { readonly destination: string, readonly files: number }

/** Runs the command for the database of `CLICKHOUSE_URL`; `vi.unstubAllEnvs` undoes the rest. */
export async function backUp (
  env: { readonly CLICKHOUSE_URL: string }, destination: string
): Promise<Backup> {
  vi.stubEnv('CLICKHOUSE_URL', env.CLICKHOUSE_URL)
  vi.stubEnv('BACKUP_TO', destination)
  return JSON.parse(await runCommand('--json backup')) as Backup
}

/** The statement of the guide, of another database and place. */
export function restoreStatement (database: string, destination: string): string {
  const [statement = ''] = /^RESTORE DATABASE[^`]*/m.exec(guide) ?? []
  return statement.replaceAll('verification', database).replace(/S3\([^)]*\)/, destination)
}
