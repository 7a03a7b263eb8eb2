import { setTimeout as sleep } from 'node:timers/promises'
import {
  logPath, nextDelayMs, startChild, stopChild, readTail, type Child, type ProcessSpec,
} from './process.ts'

const POLL_MS = 100
const HOPELESS_STARTS = 6
/** Far beyond what a busy machine needs: a program that ends instead is noticed at once. */
const HANGS_AFTER_MS = 480_000

/** One program that is kept running until `stop`. */
export type Supervised = {
  readonly spec: ProcessSpec
  /** The pid, or undefined while the program is down. */
  readonly pid: () => number | undefined
  /** How often it was started again after it died. */
  readonly restarts: () => number
  /** Ends a wait before the next start, so that the program starts now. */
  readonly hurry: () => void
  /** Resolves when the program is ready; rejects with the end of its log when it can't be. */
  readonly untilReady: (timeoutMs?: number) => Promise<void>
  readonly kill: (signal: NodeJS.Signals) => void
  readonly stop: () => Promise<void>
}

/**
 * Starts a program and starts it again whenever it ends; `onChange` hears of every end, with its
 * reason, and of every start after it.
 */
export function supervise (
  spec: ProcessSpec, onChange: (ended?: string) => void = () => undefined
): Supervised {
  let child: Child | undefined
  let restarts = 0
  let pause = new AbortController()
  const end = new AbortController()

  async function keepRunning (): Promise<void> {
    let delayMs = 0
    while (!end.signal.aborted) {
      const startedAt = performance.now()
      child = startChild(spec)
      if (restarts > 0) onChange()
      const how = await child.exited
      child = undefined
      if (end.signal.aborted) return
      delayMs = nextDelayMs(delayMs, performance.now() - startedAt)
      console.log(`${spec.name} ended (${how}), starting again in ${delayMs} ms`)
      onChange(how)
      pause = new AbortController()
      await sleep(delayMs, undefined, { signal: pause.signal }).catch(() => undefined)
      restarts += 1
    }
  }

  const running = keepRunning()
  const supervised: Supervised = {
    spec,
    pid: () => child?.pid,
    restarts: () => restarts,
    hurry: () => pause.abort(),
    untilReady: (timeoutMs = HANGS_AFTER_MS) => untilReady(supervised, timeoutMs),
    kill: (signal) => child?.kill(signal),
    stop: async () => {
      end.abort()
      pause.abort()
      if (child) await stopChild(child, spec.graceMs)
      await running
    },
  }
  return supervised
}

async function untilReady (supervised: Supervised, timeoutMs: number): Promise<void> {
  const { spec } = supervised
  const giveUpAt = performance.now() + timeoutMs
  const startsBefore = supervised.restarts()
  for (;;) {
    if (supervised.pid() !== undefined && await spec.ready()) return
    const starts = supervised.restarts() - startsBefore
    if (performance.now() > giveUpAt || starts >= HOPELESS_STARTS) {
      const problem = spec.problem?.()
      const why = problem === undefined ? '' : `: ${String(problem)}`
      throw new Error(`${spec.name} did not become ready (started ${starts + 1} times)${why}. ` +
        `The end of ${logPath(spec)}:\n${readTail(logPath(spec))}`)
    }
    await sleep(POLL_MS)
  }
}
