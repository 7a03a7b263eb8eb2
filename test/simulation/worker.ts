import { startRedisServer } from '../support/redis/server.ts'
import { NO_FAULTS, runSeed, type Run } from './run.ts'
import { openEnvironment } from './environment.ts'

/** The seeds that a worker is to run one after another, with faults or without any. */
export type Order = { readonly first: number, readonly count: number, readonly faultFree?: boolean }

/** What it answers: one for each seed, then that it has nothing left to do. */
export type Answer =
  | { readonly kind: 'run', readonly run: Run }
  | { readonly kind: 'done' }

/** Small collections stay in the order they were filled in, which is the same in every server. */
const IN_ORDER = [
  '--hash-max-ziplist-entries', '1000000', '--hash-max-ziplist-value', '1000000',
  '--zset-max-ziplist-entries', '1000000', '--zset-max-ziplist-value', '1000000',
] as const

const [state, cache] = await Promise.all([startRedisServer(IN_ORDER), startRedisServer(IN_ORDER)])
process.on('exit', () => { for (const server of [state, cache]) server.kill() })
for (const end of ['disconnect', 'SIGTERM', 'SIGINT']) process.on(end, () => process.exit())

const environment = await openEnvironment({ state: state.socket, cache: cache.socket })
const report = (answer: Answer) => process.send?.(answer)

/** A run that does not end, or fails in any other way, is a breach as well. */
async function runOne (seed: number, faultFree: boolean): Promise<Run> {
  try {
    return await runSeed(environment, seed, ...faultFree ? [NO_FAULTS] : [])
  } catch (error) {
    const reason = error instanceof Error ? error.stack ?? error.message : String(error)
    return {
      seed,
      breaches: [reason],
      crashes: 0,
      corrupted: 0,
      lostKeys: 0,
      calls: 0,
      cancelled: 0,
      losses: [],
      deaths: 0,
      salvaged: 0,
      outcomes: [],
      verified: 0,
      followed: 0,
      broken: [],
      trace: environment.trace(),
    }
  }
}

process.on('message', ({ first, count, faultFree = false }: Order) => {
  const work = async () => {
    for (let seed = first; seed < first + count; seed++) {
      const run = await runOne(seed, faultFree)
      report({ kind: 'run', run })
      if (run.breaches.length > 0) break
    }
    report({ kind: 'done' })
  }
  // A failure here ends the process with an error.
  work().catch(error => { setImmediate(() => { throw error }) })
})
report({ kind: 'done' })
