import { Worker } from 'node:worker_threads'

/** An event loop that does not turn for this time is frozen: its process must start again. */
const FROZEN_AFTER_MS = 60_000

/** Counts its own ticks, so that a suspended process, whose threads all rest, is not frozen. */
const WATCH = `
  const { workerData: { beats, tickMs, maxTicks } } = require('node:worker_threads')
  let latest = 0
  let ticks = 0
  setInterval(() => {
    const now = Atomics.load(beats, 0)
    ticks = now === latest ? ticks + 1 : 0
    latest = now
    if (ticks < maxTicks) return
    require('node:fs').writeSync(2, JSON.stringify({
      level: 'fatal', msg: 'event loop frozen, killing the process', frozenMs: ticks * tickMs,
    }) + '\\n')
    process.kill(process.pid, 'SIGKILL')
  }, tickMs)
`

/**
 * Kills this process when its event loop is frozen, from a thread of its own: nothing in a frozen
 * process can answer or stop it, and not every supervisor asks. Whatever starts it again finds the
 * message that it was at.
 */
export function startWatchdog (frozenAfterMs = FROZEN_AFTER_MS): void {
  const beats = new Int32Array(new SharedArrayBuffer(4))
  const maxTicks = 20
  const tickMs = frozenAfterMs / maxTicks
  setInterval(() => Atomics.add(beats, 0, 1), tickMs / 2).unref()
  new Worker(WATCH, {
    eval: true, execArgv: [], workerData: { beats, tickMs, maxTicks },
  }).unref()
}
