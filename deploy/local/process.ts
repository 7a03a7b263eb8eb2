import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync }
  from 'node:fs'
import { delimiter, dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** How to start one program of the stack and how to tell that it works. */
export type ProcessSpec = {
  /** Unique in its stack: names the log, the pid file and messages. */
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  /** Added to the environment of the starting process; undefined removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly cwd?: string
  /** Its output goes to `<dataDir>/logs/<name>.log`, its pid to `<dataDir>/pids/<name>`. */
  readonly dataDir: string
  readonly ready: () => Promise<boolean>
  /** Why it was not ready when it was asked last. */
  readonly problem?: () => unknown
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number
}

export type Child = {
  readonly pid: number
  /** Settles when the program has ended, with a sentence that says how. Never rejects. */
  readonly exited: Promise<string>
  readonly kill: (signal: NodeJS.Signals) => void
}

/** Where the output of the program goes. */
export const logPath = (spec: Pick<ProcessSpec, 'dataDir' | 'name'>): string =>
  `${spec.dataDir}/logs/${spec.name}.log`

const pidPath = (spec: ProcessSpec): string => `${spec.dataDir}/pids/${spec.name}`

const setprivExists = (process.env.PATH ?? '').split(delimiter)
  .some((folder) => existsSync(`${folder}/setpriv`))

/** What to spawn so that the kernel kills the program when the process that spawned it dies. */
function endingWithParent (
  command: string, args: readonly string[]
): [string, readonly string[]] {
  return setprivExists
    ? ['setpriv', ['--pdeathsig', 'KILL', command, ...args]]
    : [command, args]
}

/**
 * Starts a program in a process group of its own, so that Ctrl-C in a terminal reaches only the
 * starting process, which then stops its children in order. The kernel kills the program when the
 * starting process dies, however it dies (`setpriv`; where that is missing, the pid files tell).
 */
export function startChild (spec: ProcessSpec): Child {
  for (const file of [logPath(spec), pidPath(spec)]) {
    mkdirSync(dirname(file), { recursive: true })
  }
  const log = openSync(logPath(spec), 'a')
  const child = spawn(...endingWithParent(spec.command, spec.args), {
    cwd: spec.cwd ?? process.cwd(),
    env: { ...process.env, ...spec.env },
    stdio: ['ignore', log, log],
    detached: true,
  })
  closeSync(log)
  const exited = waitForExit(child).finally(() => rmSync(pidPath(spec), { force: true }))
  if (child.pid !== undefined) writeFileSync(pidPath(spec), `${child.pid} ${spec.args.at(-1)}`)
  return { pid: child.pid ?? -1, exited, kill: (signal) => { child.kill(signal) } }
}

function waitForExit (child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`))
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `exit code ${code}` : `signal ${signal}`))
  })
}

/** Asks the program to end, then insists after `graceMs`; returns when it has ended. */
export async function stopChild (child: Child, graceMs: number): Promise<void> {
  child.kill('SIGTERM')
  const patience = new AbortController()
  const insist = sleep(graceMs, undefined, { signal: patience.signal })
    .then(() => child.kill('SIGKILL'), () => undefined)
  await child.exited
  patience.abort()
  await insist
}

const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 5_000
const STEADY_AFTER_MS = 10_000

/** The wait before the next start: doubles up to 5 s, and is 100 ms again after a steady run. */
export function nextDelayMs (previousMs: number, ranForMs: number): number {
  if (previousMs === 0 || ranForMs >= STEADY_AFTER_MS) return FIRST_DELAY_MS
  return Math.min(previousMs * 2, MAX_DELAY_MS)
}

/** The last 15 lines that a program wrote, for error messages. */
export function readTail (file: string): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-15).join('\n')
  } catch {
    return '(no output)'
  }
}

/** True when the URL answers with 200. Every failure means: not yet. */
export async function answersOk (
  url: string, headers: Readonly<Record<string, string>> = {}
): Promise<boolean> {
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(2_000) })
    await response.arrayBuffer()
    return response.status === 200
  } catch {
    return false
  }
}
