import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import type { Profiler } from 'node:inspector'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { logPath } from '../deploy/local/process.ts'
import { createClient, type Client } from '../services/client/client.ts'
import { withStack } from './bench/services.ts'
import { startAll } from './support/stacks/services.ts'
import { root } from './support/sources.ts'
import { newFolder } from './support/folder.ts'

/** The stages between POST and CSV, in order. */
const ROW_STAGES = ['ingest', 'normalize', 'lookup', 'verify', 'settle']
/** `ledger` runs beside them, as it unlocks the wallets of a Redis that has just started. */
const STARTED = [...ROW_STAGES, 'ledger']
/** V8 counts calls imprecisely in code from a compile cache. */
const INSPECTED = { NODE_OPTIONS: '--inspect=127.0.0.1:0', NODE_DISABLE_COMPILE_CACHE: '1' }
const WITHOUT_JOB_MS = 20_000
/** After a job, until stages have committed its offsets. */
const QUIET_MS = 10_000
/** Results can be read before the job is closed. */
const CLOSE_MS = 1_000

type Script = Pick<Profiler.ScriptCoverage, 'url' | 'functions'>
type StageProfile = {
  readonly stage: string, readonly job: readonly Script[], readonly idle: readonly Script[],
}

type RowFile = {
  /** Relative to the root. */
  readonly path: string
  /** `name:line`, without unnamed functions inside others of the list. */
  readonly functions: readonly string[]
  /** Their lines, without those of functions in them that did not run. */
  readonly lines: ReadonlySet<number>
}

export type StagePath = { readonly stage: string, readonly files: readonly RowFile[] }

/**
 * The code that each stage runs for a job of one row, from POST to CSV, measured on a stack with a
 * process per stage. A first job runs what runs once. Then V8 counts the calls of every function
 * without any job, and again during a job of a new row. A function that the same process also calls
 * without a job is left out: heartbeats, polls, metrics. The time without a job is many times that
 * of the job, so that all but the slowest timers run in it. Lua scripts are not measured, because
 * they run in Redis.
 */
export async function measureRowPath (): Promise<readonly StagePath[]> {
  const dataDir = newFolder('verification-jobs-row-')
  try {
    return await withStack(dataDir, async ({ env, keys: [apiKey] }) => {
      const services = await startAll({
        env, stages: STARTED, processes: 9, overrides: INSPECTED,
      })
      try {
        const client = createClient({ baseUrl: services.baseUrl, apiKey })
        return await profileRow(client, services.dataDir)
      } finally {
        await services.stop()
      }
    })
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function profileRow (client: Client, dataDir: string): Promise<readonly StagePath[]> {
  const profilers = await Promise.all(ROW_STAGES.map(stage =>
    openProfiler(logPath({ dataDir, name: `${stage}-1` }))))
  const all = (method: string) => Promise.all(profilers.map(call => call(method)))
  await all('enable')
  await all('startPreciseCoverage')
  await runRow(client, '+12127365000')
  await sleep(QUIET_MS)
  await all('takePreciseCoverage')
  await sleep(WITHOUT_JOB_MS)
  const idle = await all('takePreciseCoverage')
  await runRow(client, '+12127365001')
  const job = await all('takePreciseCoverage')
  const profiles = ROW_STAGES.map((stage, index) =>
    ({ stage, job: job[index] ?? [], idle: idle[index] ?? [] }))
  return rowPathOf(profiles, path => readFileSync(join(root, path), 'utf8'))
}

/** Calls methods of the profiler of a process, one at a time. Taking coverage resets its counts. */
async function openProfiler (log: string) {
  const socket = new WebSocket(/ws:\S+/.exec(readFileSync(log, 'utf8'))?.[0] ?? '')
  await once(socket, 'open')
  return async (method: string): Promise<readonly Script[]> => {
    const answered = once(socket, 'message')
    const params = { callCount: true, detailed: false }
    socket.send(JSON.stringify({ id: 1, method: `Profiler.${method}`, params }))
    const [{ data }] = await answered as [{ readonly data: string }]
    return JSON.parse(data).result.result
  }
}

async function runRow (client: Client, input: string): Promise<void> {
  const { id } = await client.createJob({ service: 'phone-validation', inputs: [input] })
  await client.waitForEnd(id)
  await client.results(id)
  await sleep(CLOSE_MS)
}

/**
 * The files below `services/` with functions that are called in `job` and not in `idle`, each
 * function in the first stage that calls it. Node blanks types, so offsets are those of the source.
 */
function rowPathOf (
  profiles: readonly StageProfile[], textOf: (path: string) => string
): readonly StagePath[] {
  const listed = new Set<string>()
  return profiles.map(({ stage, job, idle }) => {
    const ranIdle = new Set(idle.flatMap(calledIn))
    const ran = new Set(job.flatMap(calledIn).filter(id => !ranIdle.has(id) && !listed.has(id)))
    for (const id of ran) listed.add(id)
    const isOwn = ({ path }: RowFile) => Number(path.startsWith(`services/${stage}/`))
    const files = job.filter(({ url }) => url.startsWith(SERVICES_URL))
      .map(script => rowFileOf(script, ran, textOf))
      .filter(({ lines }) => lines.size > 0)
      .sort((a, b) => isOwn(b) - isOwn(a) || a.path.localeCompare(b.path))
    return { stage, files }
  })
}

const SERVICES_URL = pathToFileURL(join(root, 'services/')).href
const idOf = (url: string, start: number) => `${url}:${start}`

function calledIn ({ url, functions }: Script): readonly string[] {
  return functions.flatMap(({ ranges: [range] }) =>
    range !== undefined && range.count > 0 ? [idOf(url, range.startOffset)] : [])
}

/** V8 lists functions in the order of the source, outer ones before those in them. */
function rowFileOf (
  { url, functions }: Script, ran: ReadonlySet<string>, textOf: (path: string) => string
): RowFile {
  const path = relative(root, fileURLToPath(url))
  const text = textOf(path)
  const lineAt = (offset: number) => text.slice(0, offset).split('\n').length
  const names: string[] = []
  const lines = new Set<number>()
  let listedUntil = 0
  for (const { functionName, ranges: [range] } of functions) {
    const { startOffset, endOffset } = range!
    const [first, last] = [lineAt(startOffset), lineAt(endOffset)]
    const hasRun = ran.has(idOf(url, startOffset))
    // The first line of a function belongs to the one around it, too.
    for (let line = hasRun ? first : first + 1; line <= last; line += 1) {
      if (hasRun) lines.add(line)
      else lines.delete(line)
    }
    if (hasRun && (functionName !== '' || endOffset > listedUntil)) {
      names.push(`${functionName}:${first}`)
      listedUntil = Math.max(listedUntil, endOffset)
    }
  }
  return { path, functions: names, lines }
}
