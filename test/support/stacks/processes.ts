import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunningServices } from './services.ts'

/** The pid of a part of the stack or of a service, by the folder that it was started in. */
export function pidOf (dataDir: string, name: string): number {
  return Number(readFileSync(`${dataDir}/pids/${name}`, 'utf8').split(' ')[0])
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
