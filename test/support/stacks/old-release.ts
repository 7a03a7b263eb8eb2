import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync }
  from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../../deploy/local/ports.ts'
import { answersOk } from '../../../deploy/local/process.ts'
import { supervise } from '../../../deploy/local/supervise.ts'
import { withoutForeignRootKeys } from '../keys/organization-keys.ts'

type Env = Readonly<Record<string, string>>

export type Field = { readonly name: string, readonly type: unknown, readonly default?: unknown }
export type RecordSchema = { readonly fields: readonly Field[] }

export type ReleasedService = {
  readonly metrics: () => Promise<string>
  /** How often it was started again after it died. */
  readonly restarts: () => number
  readonly untilReady: () => Promise<void>
  /** SIGTERM, as an upgrade does. */
  readonly stop: () => Promise<void>
}

export type Release = {
  /** Its own provisioning, in a process as deployment runs it. */
  readonly provision: (env: Env) => Promise<{ readonly code: number | null, readonly said: string }>
  /** A service of it, under a name of its own; ready once `untilReady` has resolved. */
  readonly start: (stage: string, env: Env) => Promise<ReleasedService>
  readonly remove: () => void
}

const root = join(import.meta.dirname, '..', '..', '..')
const COPIED = ['services', 'schemas', 'deploy', 'package.json']

type Differences = {
  /** A further migration of its own. */
  readonly migration?: string
  /** Its code where that differs: a file, a text of it that must be there, and its replacement. */
  readonly code?: readonly (readonly [file: string, text: string, replacement: string])[]
}

/**
 * Another release of the product: the same programs in a folder of their own, with other schemas.
 * `change` is given every schema by its file's name, without the ending.
 */
export function createRelease (
  name: string, change: (schema: RecordSchema, file: string) => RecordSchema,
  { migration, code = [] }: Differences = {}
): Release {
  const folder = mkdtempSync(join(tmpdir(), `verification-jobs-${name}-`))
  for (const entry of COPIED) cpSync(join(root, entry), join(folder, entry), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const schemas = readdirSync(join(folder, 'schemas')).filter(file => file.endsWith('.avsc'))
  for (const file of schemas) {
    const path = join(folder, 'schemas', file)
    const schema = JSON.parse(readFileSync(path, 'utf8')) as RecordSchema
    writeFileSync(path, JSON.stringify(change(schema, file.slice(0, -'.avsc'.length))))
  }
  for (const [file, text, replacement] of code) {
    const path = join(folder, file)
    const source = readFileSync(path, 'utf8')
    if (!source.includes(text)) throw new Error(`${file} has no "${text}" to replace`)
    writeFileSync(path, source.replace(text, replacement))
  }
  if (migration !== undefined) {
    const tables = join(folder, 'schemas', 'clickhouse')
    const number = String(readdirSync(tables).length + 1).padStart(4, '0')
    writeFileSync(join(tables, `${number}_${name}.sql`), migration)
  }
  return {
    provision: env => runProgram(folder, 'deploy/provision.ts', env),
    start: (stage, env) => startService({ folder, name: `${name}-${stage}` }, stage, env),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

function runProgram (folder: string, program: string, env: Env): ReturnType<Release['provision']> {
  const child = spawn(process.execPath, [program], {
    cwd: folder, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text: Buffer) => { said += text.toString() })
  }
  return new Promise(resolve => child.on('close', code => resolve({ code, said })))
}

async function startService (
  { folder, name }: { readonly folder: string, readonly name: string }, stage: string, env: Env
): Promise<ReleasedService> {
  const port = await freePort()
  const address = `http://127.0.0.1:${port}`
  const supervised = supervise({
    name,
    command: process.execPath,
    args: [`services/${stage}/main.ts`],
    cwd: folder,
    env: { ...env, ...withoutForeignRootKeys([stage]), INSTANCE: name, PORT_METRICS: String(port) },
    dataDir: folder,
    ready: () => answersOk(`${address}/readyz`),
    graceMs: 25_000,
  })
  return {
    metrics: async () => await (await fetch(`${address}/metrics`)).text(),
    restarts: supervised.restarts,
    untilReady: () => supervised.untilReady(),
    stop: supervised.stop,
  }
}

/** Ids of a subject's versions, or of those of all subjects, the oldest first. */
export async function idsOf (registryUrl: string, subject?: string): Promise<readonly number[]> {
  const read = async <T>(path: string) =>
    await (await fetch(`${registryUrl}/subjects${path}`)).json() as T
  const subjects = subject === undefined ? await read<readonly string[]>('') : [subject]
  const found = await Promise.all(subjects.map(async one => {
    const versions = await read<readonly number[]>(`/${one}/versions`)
    return await Promise.all(versions.map(async version =>
      (await read<{ readonly id: number }>(`/${one}/versions/${version}`)).id))
  }))
  return found.flat()
}
