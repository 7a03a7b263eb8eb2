import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

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
