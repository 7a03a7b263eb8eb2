import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { readTail } from '../process.ts'
import { command, waitUntil } from './control.ts'
import { readJson } from '../json-file.ts'
import { readCommand, endLeftovers, supervisorFile } from './state.ts'
import type { Say } from '../parts.ts'
import type { Wanted } from './supervisor.ts'

const program = `${import.meta.dirname}/main.ts`
const LISTENS_WITHIN_MS = 20_000
const ENDS_WITHIN_MS = 60_000

/** Brings the stack of a folder up through its supervisor, which is started if none answers. */
export async function bringUp (
  dataDir: string, wanted: Wanted, say: Say
): Promise<void> {
  const order = { name: 'up', wanted } as const
  const ask = () => command(dataDir, order, say)
  if (await ask()) return
  // A supervisor that another command has just started does not listen yet.
  if (runningPid(dataDir) !== undefined && await persist(ask, () => runningPid(dataDir))) return
  await endSupervisor(dataDir)
  const pid = startSupervisor(dataDir)
  const alive = () => readCommand(pid) !== '' || runningPid(dataDir)
  if (await persist(ask, alive)) return
  throw new Error(`The supervisor did not start:\n${readTail(`${dataDir}/logs/supervisor.log`)}`)
}

/** Asks until a supervisor answers; false when there is none left to wait for, or time is up. */
async function persist (ask: () => Promise<boolean>, alive: () => unknown): Promise<boolean> {
  let answered = false
  await waitUntil(async () => {
    const hope = alive()
    answered = await ask()
    return answered || !hope
  }, LISTENS_WITHIN_MS)
  return answered
}

/** The pid of the folder's supervisor while it runs. */
function runningPid (dataDir: string): number | undefined {
  const pid = readJson<{ pid: number }>(supervisorFile(dataDir))?.pid
  return pid !== undefined && readCommand(pid).includes(program) ? pid : undefined
}

/** Ends the supervisor of a folder and all it runs. False when nothing was running. */
export async function bringDown (dataDir: string, say: Say): Promise<boolean> {
  const answered = await command(dataDir, { name: 'down' }, say)
  return await endSupervisor(dataDir) || answered
}

/** The supervisor outlives the command: a session of its own, its output in a log. */
function startSupervisor (dataDir: string): number {
  mkdirSync(`${dataDir}/logs`, { recursive: true })
  const log = openSync(`${dataDir}/logs/supervisor.log`, 'a')
  const child = spawn(process.execPath, [program, '--data', dataDir], {
    detached: true, stdio: ['ignore', log, log], cwd: `${import.meta.dirname}/../../..`,
  })
  closeSync(log)
  child.unref()
  if (child.pid === undefined) throw new Error('The supervisor could not be started')
  return child.pid
}

/** Waits for a supervisor to be gone, insisting at last, and for all that it had started. */
async function endSupervisor (dataDir: string): Promise<boolean> {
  const pid = runningPid(dataDir)
  const ended = () => runningPid(dataDir) !== pid
  if (pid !== undefined && !await waitUntil(ended, 2_000)) {
    process.kill(pid, 'SIGTERM')
    if (!await waitUntil(ended, ENDS_WITHIN_MS)) process.kill(pid, 'SIGKILL')
  }
  return endLeftovers(dataDir).length > 0 || pid !== undefined
}
