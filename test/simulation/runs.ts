import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Run } from './run.ts'
import type { Answer, Order } from './worker.ts'

export type RunsOptions = {
  readonly first: number
  readonly seeds: number
  readonly workers?: number
  readonly faultFree?: boolean
  readonly onRun?: (run: Run) => void
}

/** All seeds from the first to the last were run, unless one failed. */
export type Runs = {
  readonly first: number
  readonly last: number
  readonly seconds: number
  /** In the order of their seeds. */
  readonly runs: readonly Run[]
  /** The lowest seed that violated an invariant. */
  readonly failed: Run | undefined
}

/** Few enough to stop soon, and enough to keep a worker busy. */
const SEEDS_AT_ONCE = 5

/**
 * Runs seeds in processes of their own, each with its own Redis, in their order; ends soon after
 * the first breach. Throws when a process dies.
 */
export async function runSeeds (options: RunsOptions): Promise<Runs> {
  const { first, seeds, workers = 2, faultFree = false, onRun } = options
  const startedMs = performance.now()
  const runs: Run[] = []
  let next = first
  const nextOrder = (): Order | undefined => {
    const missing = first + seeds - next
    if (missing <= 0 || runs.some(({ breaches }) => breaches.length > 0)) return undefined
    const count = Math.min(missing, SEEDS_AT_ONCE)
    const order = { first: next, count, faultFree }
    next += count
    return order
  }
  const take = (run: Run) => {
    runs.push(run)
    onRun?.(run)
  }
  await Promise.all(Array.from({ length: workers }, () => serve(nextOrder, take)))
  runs.sort((a, b) => a.seed - b.seed)
  const failed = runs.find(({ breaches }) => breaches.length > 0)
  const seconds = (performance.now() - startedMs) / 1_000
  return { first, last: next - 1, seconds, runs, failed }
}

/** One worker, from its start to its end. */
async function serve (
  nextOrder: () => Order | undefined, take: (run: Run) => void
): Promise<void> {
  const worker = fork(join(import.meta.dirname, 'worker.ts'), {
    execArgv: [], env: { ...process.env, NODE_NO_WARNINGS: '1', NODE_OPTIONS: '' },
  })
  const over = new Promise<void>((resolve, reject) => {
    worker.on('exit', code => {
      reject(new Error(`a process that simulates ended with ${code}`))
    })
    worker.on('message', (answer: Answer) => {
      if (answer.kind === 'run') return take(answer.run)
      const order = nextOrder()
      if (order === undefined) resolve()
      else worker.send(order)
    })
  })
  try {
    await over
  } finally {
    await end(worker)
  }
}

async function end (worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return
  const gone = once(worker, 'exit')
  worker.disconnect()
  await gone
}

/** The message of a failed run, and how to reproduce it. */
export function wordsOf ({ seed, breaches }: Run): string {
  const again = `npm run simulate -- --first ${seed} --seeds 1`
  return [`seed ${seed} violated an invariant:`, ...breaches.map(breach => `  ${breach}`),
    `again: ${again}`].join('\n')
}
