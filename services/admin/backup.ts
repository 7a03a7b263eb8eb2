import Type from 'typebox'
import { counted, createProgressLine } from '../client/terminal.ts'
import type { Clickhouse } from '../runtime/platform/clickhouse.ts'
import { clickhouseKeys, commonConfig, loadConfig, pick } from '../runtime/platform/config.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import { retry, sleep } from '../runtime/platform/retry.ts'
import { CommandFailure } from '../runtime/platform/run-command.ts'
import { type AdminCommand, type Context, runAndPrint } from './command-line.ts'
import { withConnections } from './deps.ts'

const HELP = `
ClickHouse itself writes the backup, to the place that BACKUP_TO names in its own words, with {time}
in the name: S3('https://<host>/<bucket>/{time}', '<key>', '<secret>'), Disk('<disk>', '{time}') or
a collection of its configuration, S3(<collection>, '{time}'). Data keys are left out, so that no
backup brings back what was erased. Services may run meanwhile.
To restore, and for Kafka, Redis and the keys: deploy/docs/recovery.md.`

/** The settings of the command. */
export const backupConfig = Type.Object({
  ...pick(commonConfig, clickhouseKeys),
  BACKUP_TO: Type.String({
    secret: true,
    pattern: '^(S3|Disk|File|AzureBlobStorage)\\([^;]*\\{time\\}[^;]*\\)$',
    description: 'Where ClickHouse writes backups: the destination of its statement BACKUP, with ' +
      '{time} for the time of each.',
    examples: ["S3('https://s3.example.com/backups/{time}', '<key>', '<secret>')"],
  }),
})

/** A row of `system.backups`. */
type BackupState = {
  /** Without secrets. */
  readonly name: string
  readonly status: string
  readonly error: string
  readonly files: string
  readonly bytes: string
  readonly size: string
}

/** Adds `backup`. */
export function addBackup (program: AdminCommand, context: Context): void {
  program.command('backup').description('back up ClickHouse, without data keys, to BACKUP_TO')
    .reads()
    .addHelpText('after', HELP)
    .example()
    .action(runAndPrint(context, async ({ env, json }) => {
      const settings = loadConfig(backupConfig, env)
      const line = createProgressLine<BackupState>(context.errors, {
        textOf: ({ status, files, size }) =>
          `${status}: ${counted(Number(files), 'file')}, ${size}`,
      })
      const time = new Date().toISOString().replaceAll(/:|\.\d+/g, '')
      try {
        const { name, files, bytes, size } = await withConnections(
          env, ['clickhouse'], ({ clickhouse }) => backUp(clickhouse, {
            destination: settings.BACKUP_TO.replaceAll('{time}', time),
            show: state => { if (!json) line.show(state) },
          }))
        return {
          data: { destination: name, files: Number(files), bytes: Number(bytes) },
          text: `Stored ${counted(Number(files), 'file')} (${size}) in ${name}.\n` +
            'To restore it: deploy/docs/recovery.md.',
        }
      } finally {
        line.end()
      }
    }))
}

type BackupOptions = {
  /** As ClickHouse reads it after `TO`. */
  readonly destination: string
  readonly show: (state: BackupState) => void
}

/** The pause between two looks at a backup doubles up to this. */
const MAX_PAUSE_MS = 10_000

/**
 * Lets ClickHouse write a backup of the database, on a cluster of all its servers, and waits for
 * its end.
 * @throws CommandFailure with the reason of ClickHouse when there is no complete backup.
 */
async function backUp (
  clickhouse: Clickhouse, { destination, show }: BackupOptions
): Promise<BackupState> {
  const [place] = await clickhouse.rows<{ readonly database: string, readonly cluster: string }>(
    SELECT_DATABASE)
  if (place === undefined) {
    throw new CommandFailure('The database in CLICKHOUSE_URL has no tables, or its user may not ' +
      'back them up: check the name of the database, and GRANT BACKUP.')
  }
  const id = await start(clickhouse, { destination, ...place })
  const backups = place.cluster === ''
    ? 'system.backups'
    : `clusterAllReplicas('${place.cluster}', system.backups)`
  const read = async () => (await clickhouse.rows<BackupState>(
    `SELECT name, status, error, num_files AS files, total_size AS bytes,
        formatReadableSize(total_size) AS size
      FROM ${backups} WHERE id = {id:String}`, { id }))[0]
  for (let pauseMs = 250; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    const state = await retry(5, read, { firstMs: 1_000, when: isInfrastructure })
    if (state === undefined) {
      throw new CommandFailure(`The server in CLICKHOUSE_URL knows no backup ${id} any more: it ` +
        'was restarted, or another one answers. Name one server in the URL.')
    }
    if (state.status === 'BACKUP_CREATED') return state
    if (state.status !== 'CREATING_BACKUP') {
      const [reason = ''] = state.error.split(', Stack trace', 1)
      throw new CommandFailure(`No backup in ${state.name} (${state.status}): ${reason}`)
    }
    show(state)
    await sleep(pauseMs)
  }
}

/** The database, and the cluster over whose servers its tables are; none is empty. */
const SELECT_DATABASE = `
  SELECT database, extract(engine_full, '^Distributed[(].([^,]+).,') AS cluster
  FROM system.tables WHERE database = currentDatabase() AND name = 'jobs'`

/** Data keys, and the table without which `provision` makes theirs again after a restoration. */
const LEFT_OUT = ['job_keys', 'job_keys_local', 'applied_migrations']

const SYNTAX_ERROR = '62'

/** Starts a backup, and returns its id. */
async function start (
  clickhouse: Clickhouse,
  { destination, database, cluster }: Record<'destination' | 'database' | 'cluster', string>
): Promise<string> {
  const left = LEFT_OUT.map(table => `\`${database}\`.${table}`).join(', ')
  const servers = cluster === '' ? '' : ` ON CLUSTER '${cluster}'`
  const [started] = await clickhouse.rows<{ readonly id: string }>(
    `BACKUP DATABASE \`${database}\` EXCEPT TABLES ${left}${servers} TO ${destination} ASYNC`
  ).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === SYNTAX_ERROR)) throw error
    // The message repeats what was not understood, with its secrets.
    throw new CommandFailure('ClickHouse does not understand BACKUP_TO: check its quotes and ' +
      'brackets.')
  })
  return started?.id ?? ''
}
