import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { drainPending, Session } from 'chdb'
import { canStream, quoteLiteral } from './sql.ts'
import type { EngineRequest } from './request.ts'

/** What a query read or wrote, for the summary header. */
export type Counts = { readonly rows: number, readonly bytes: number, readonly elapsedMs: number }

export type EngineResult =
  | { readonly kind: 'whole', readonly bytes: Uint8Array, readonly counts: Counts }
  | { readonly kind: 'pieces', readonly pieces: AsyncGenerator<Uint8Array> }

export type Engine = {
  /** Rejects with the engine's own message when the query is wrong. */
  readonly run: (request: EngineRequest) => Promise<EngineResult>
  readonly close: () => Promise<void>
}

const DEFAULT_QUERY_BYTES = 262_144

/** So little is written in less time than a thread takes to begin. */
const WRITTEN_AT_ONCE_BYTES = 64 * 1_024

/**
 * Opens the ClickHouse engine on a folder. Every request gets a connection of its own (0.3 ms) on
 * the one engine, so its settings, parameters and database touch no other request. All of them are
 * of one user, who may do everything, or what `grants` say.
 */
export function openEngine (folder: string, grants?: readonly string[]): Engine {
  const incoming = `${folder}.incoming`
  rmSync(incoming, { recursive: true, force: true })
  mkdirSync(incoming, { recursive: true })
  const connectionArgs = [`--config-file=${writeConfig(folder, grants)}`]
  const connect = () => new Session(folder, { connectionArgs })
  // The engine would be torn down with its last connection, so one stays open.
  const main = connect()
  const files = createFiles(incoming)

  async function insertFrom (session: Session, request: EngineRequest): Promise<EngineResult> {
    const { text, data } = request.insert!
    const file = files.take()
    try {
      if (data.length <= WRITTEN_AT_ONCE_BYTES) writeFileSync(file, data)
      else await writeFile(file, data)
      const sql = `${text.head} FROM INFILE ${quoteLiteral(file)} ${text.tail}`
      return await runWhole(session, sql, 'CSV')
    } finally {
      files.giveBack(file)
    }
  }

  return {
    run: async (request) => {
      const session = connect()
      try {
        prepareSession(session, request)
        if (request.insert) return closing(session, await insertFrom(session, request))
        if (!canStream(request.sql, request.defaultFormat)) {
          return closing(session, await runWhole(session, request.sql, request.defaultFormat))
        }
        return { kind: 'pieces', pieces: streamPieces(session, request) }
      } catch (error) {
        session.close()
        throw error
      }
    },
    close: async () => {
      await drainPending()
      main.close()
    },
  }
}

/**
 * Writes what is no setting of a query: the folder of backups, and clusters of this engine alone,
 * which it recognizes by the port; nothing listens there. One has it twice, so that queries are
 * refused that several shards refuse. Returns the path of the file.
 */
function writeConfig (folder: string, grants: readonly string[] | undefined): string {
  const file = `${folder}.xml`
  const users = `${folder}.users.xml`
  const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const backups = escaped(`${folder}.backups`)
  if (grants !== undefined) {
    const queries = grants.map(grant => `<query>${escaped(grant)}</query>`).join('')
    writeFileSync(users, '<clickhouse><profiles><default/></profiles><quotas><default/></quotas>' +
      '<users><default><password></password><networks><ip>::/0</ip></networks>' +
      `<profile>default</profile><quota>default</quota><grants>${queries}</grants>` +
      '</default></users></clickhouse>')
  }
  const shard = '<shard><replica><host>127.0.0.1</host><port>1</port></replica></shard>'
  writeFileSync(file, `<clickhouse>
  <backups><allowed_path>${backups}</allowed_path></backups>
  ${grants === undefined ? '' : `<users_config>${escaped(users)}</users_config>`}
  <tcp_port>1</tcp_port>
  <remote_servers>
    <embedded>${shard}</embedded>
    <two_shards>${shard}${shard}</two_shards>
  </remote_servers>
</clickhouse>
`)
  return file
}

/**
 * Names of files for data under way, used again and again: a file system may look long for room for
 * a new file where many were removed just now.
 */
function createFiles (folder: string) {
  const free: string[] = []
  let made = 0
  return {
    take: () => {
      made += free.length === 0 ? 1 : 0
      return free.pop() ?? `${folder}/${made}`
    },
    giveBack: (file: string) => { free.push(file) },
  }
}

function closing (session: Session, result: EngineResult): EngineResult {
  session.close()
  return result
}

/**
 * Values travel as string literals in SET statements, never inside the query: the engine binds
 * them to their declared types itself. A long value needs a wider limit while it is set.
 */
function prepareSession (session: Session, request: EngineRequest): void {
  if (request.database !== undefined) {
    session.query(`USE \`${request.database.replace(/[\\`]/g, '\\$&')}\``)
  }
  const lengths = [...request.parameters.values()].map((value) => value.length)
  const isLong = lengths.some((length) => length > DEFAULT_QUERY_BYTES / 4)
  if (isLong) session.query('SET max_query_size = 1073741824')
  for (const [name, value] of request.parameters) {
    session.query(`SET param_${name} = ${quoteLiteral(value)}`)
  }
  if (isLong) session.query(`SET max_query_size = ${DEFAULT_QUERY_BYTES}`)
  const settings = [...request.settings].map(([name, value]) => `${name} = ${quoteLiteral(value)}`)
  if (settings.length > 0) session.query(`SET ${settings.join(', ')}`)
}

async function runWhole (session: Session, sql: string, format: string): Promise<EngineResult> {
  const result = await session.queryAsync(sql, { format })
  return {
    kind: 'whole',
    bytes: result.bytes(),
    counts: { rows: result.rowsRead, bytes: result.bytesRead, elapsedMs: result.elapsed * 1000 },
  }
}

async function * streamPieces (
  session: Session, request: EngineRequest
): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of session.queryStream(request.sql, { format: request.defaultFormat })) {
      yield chunk.raw()
    }
  } finally {
    session.close()
  }
}
