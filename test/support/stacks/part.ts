import { setTimeout as sleep } from 'node:timers/promises'
import {
  logFileOf, startChild, stopChild, tailOf, type Child, type ProcessSpec,
} from '../../../deploy/local/process.ts'

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
        throw new Error(`${spec.name}: ${tailOf(logFileOf(spec))}`)
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
