import { expect, it, onTestFinished } from 'vitest'
import { openEnvironment } from '../simulation/environment.ts'
import { runSeed } from '../simulation/run.ts'
import { startRedisServer } from '../support/redis/server.ts'

/** Few, as they run for every mutant; `npm run simulate` finds more. */
const SEEDS = 6

it('the pipeline keeps every invariant', async () => {
  const servers = await Promise.all([startRedisServer(), startRedisServer()])
  onTestFinished(() => { for (const server of servers) server.kill() })
  const [state, cache] = servers
  const environment = await openEnvironment({ state: state.socket, cache: cache.socket })
  for (let seed = 1; seed <= SEEDS; seed++) {
    expect((await runSeed(environment, seed)).breaches).toEqual([])
  }
})
