import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Child, logPath, type ProcessSpec, startChild, stopChild, readTail,
} from '../../../deploy/local/process.ts'
import { root } from '../sources.ts'
import type { RunningServices } from './services.ts'

/** One program of the stack, which runs only on request. */
export type Part = {
  readonly name: string
  readonly pid: () => number
  /** SIGKILL; resolves when it has ended. */
  readonly down: () => Promise<void>
  /** Starts it on the same data; resolves when it answers. */
  readonly up: () => Promise<void>
  /** Down and up again. */
  readonly crash: () => Promise<void>
  readonly signal: (signal: NodeJS.Signals) => void
  readonly isAlive: () => boolean
  /** SIGTERM, and SIGKILL after a while. */
  readonly stop: () => Promise<void>
}

const READY_WITHIN_MS = 240_000

/** A part from how it is started; it does not run yet. */
export function createPart (spec: ProcessSpec): Part {
  let child: Child | undefined
  let ended = true
  const down = async () => {
    child?.kill('SIGKILL')
    await child?.exited
    ended = true
  }
  const up = async () => {
    const giveUpAt = Date.now() + READY_WITHIN_MS
    for (;;) {
      if (ended) {
        ended = false
        child = startChild(spec)
        child.exited.then(() => { ended = true }, () => {})
      }
      if (await spec.ready()) return
      if (Date.now() > giveUpAt) {
        await down()
        throw new Error(`${spec.name}: ${readTail(logPath(spec))}`)
      }
      await sleep(50)
    }
  }
  return {
    name: spec.name,
    pid: () => child?.pid ?? -1,
    isAlive: () => !ended,
    down,
    up,
    crash: async () => {
      await down()
      await up()
    },
    signal: signal => child?.kill(signal),
    stop: async () => { if (child !== undefined) await stopChild(child, spec.graceMs) },
  }
}

/** Where commands are found, and where Node keeps what it compiled. */
const { PATH, NODE_COMPILE_CACHE } = process.env

export type Started = {
  readonly kill: (signal: NodeJS.Signals) => void
  /** The signal that ended it, or null. */
  readonly signal: () => Promise<NodeJS.Signals | null>
  /** All that it wrote, once it has ended. */
  readonly ended: () => Promise<{ readonly code: number, out: string, errors: string }>
  /** The next line it writes; not to be used along with `ended`. */
  readonly line: () => Promise<string>
}

/** A program of the clone, started as a person starts it: at the top, with this environment. */
export function startProgram (
  program: string, words: readonly string[], env: Readonly<Record<string, string>>, cwd = root
): Started {
  const child = spawn(program.startsWith('services/') ? join(root, program) : program, words, {
    cwd, env: { PATH, NODE_COMPILE_CACHE, ...env }, stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const lines = () => createInterface(child.stdout)[Symbol.asyncIterator]()
  let reader: ReturnType<typeof lines> | undefined
  return {
    kill: signal => { child.kill(signal) },
    signal: async () => (await exited)[1],
    ended: async () => {
      const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
      return { code: Number((await exited)[0]), out, errors }
    },
    line: async () => {
      reader ??= lines()
      return String((await reader.next()).value)
    },
  }
}

/** The pid of a part of the stack or of a service, by the folder that it was started in. */
export function pidOf (dataDir: string, name: string): number {
  return Number(readFileSync(`${dataDir}/pids/${name}`, 'utf8').split(' ')[0])
}

/** TCP sockets of a process, as the kernel knows them (Linux: from /proc). */
export function socketsOf (pid: number) {
  const folder = `/proc/${pid}/fd`
  const inodes = new Set(readdirSync(folder).map(fd => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${fd}`))?.[1]
    } catch {
      return undefined
    }
  }))
  const portIn = (address = '') => Number.parseInt(address.split(':').at(-1) ?? '', 16)
  return ['tcp', 'tcp6'].flatMap(table =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8').trim().split('\n').slice(1))
    .map(line => line.trim().split(/\s+/))
    .filter(([, , , , , , , , , inode]) => inodes.has(inode))
    .map(([, local, remote, state]) => ({
      localPort: portIn(local),
      remotePort: portIn(remote),
      isListening: state === '0A',
      isEstablished: state === '01',
    }))
}

/** Lets a process stand still, as one that hangs or a machine that is gone, while work is done. */
export async function whileFrozen (pid: number, work: () => Promise<void>): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  try {
    await work()
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}

/** Lets an instance of a service stand still while work is done. */
export async function whileStopped<T> (
  services: Pick<RunningServices, 'kill'>, name: string, work: () => Promise<T>
): Promise<T> {
  services.kill(name, 'SIGSTOP')
  try {
    return await work()
  } finally {
    services.kill(name, 'SIGCONT')
  }
}

/** Ends a child process, unless it has ended. */
export async function endChild (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

/** Lets a process stand still over and over, so that it is late with all it does. */
export async function whileStuttering (pid: number, work: () => Promise<void>): Promise<void> {
  const over = new AbortController()
  const stutter = async () => {
    while (!over.signal.aborted) await whileFrozen(pid, () => sleep(700)).then(() => sleep(150))
  }
  const stuttering = stutter()
  try {
    await work()
  } finally {
    over.abort()
    await stuttering
  }
}
