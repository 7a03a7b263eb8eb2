import { execFileSync } from 'node:child_process'

/** A process, told apart from a later one of the same id by when it started. */
export type Holder = { readonly pid: number, readonly started: string }

/** This process. */
export function ownHolder (): Holder {
  return { pid: process.pid, started: startOf(process.pid) }
}

/** Whether another process that still runs is meant. */
export function runsElsewhere (holder: Holder): boolean {
  if (holder.pid === process.pid) return false
  try {
    process.kill(holder.pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  return startOf(holder.pid) === holder.started
}

/** Empty where `ps` is missing: then the id alone has to do. */
function startOf (pid: number): string {
  try {
    const words = ['-o', 'lstart=', '-p', String(pid)]
    return execFileSync('ps', words, { stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim()
  } catch {
    return ''
  }
}
