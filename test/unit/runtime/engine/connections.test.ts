import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { connectDeps } from '../../../../services/runtime/engine/connections.ts'
import { createLog } from '../../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import type { ServiceContext } from '../../../../services/runtime/platform/run.ts'

const lifeOf = () => {
  const closers: (() => unknown)[] = []
  return {
    closers,
    name: 'sample',
    log: createLog('sample', { level: 'silent' }),
    metrics: createMetrics(),
    fatal: () => {},
    onStop: (close: () => unknown) => { closers.push(close) },
  }
}

describe('connectDeps', () => {
  it('opens the given dependencies, with log and metrics, and closes them', async () => {
    const life = lifeOf()
    const config = {
      SCHEMA_REGISTRY_URL: 'http://127.0.0.1:1',
      CLICKHOUSE_URL: 'http://127.0.0.1:1',
      REDIS_CACHE_URL: 'redis://127.0.0.1:1',
    }
    const deps = await connectDeps(config, life, ['codec', 'clickhouse', 'cache'])
    expect(Object.keys(deps).sort()).toEqual(['cache', 'clickhouse', 'codec', 'log', 'metrics'])
    expect(deps.log).toBe(life.log)
    expect(life.closers).toHaveLength(2)
    const ended = once(deps.cache, 'end')
    for (const close of life.closers) await close()
    await ended
    expect(deps.cache.status).toBe('end')
  })

  it('opens a dependency once for the services of a process, and a gate for each', async () => {
    const life = lifeOf()
    const opened = new Map<string, Promise<unknown>>()
    const share: NonNullable<ServiceContext['share']> = <T>(
      name: string, open: (process: ServiceContext) => Promise<T>
    ) => {
      const found = opened.get(name) ?? open(life)
      opened.set(name, found)
      return found as Promise<T>
    }
    const config = {
      CLICKHOUSE_URL: 'http://127.0.0.1:1', REDIS_STATE_URL: 'redis://127.0.0.1:1',
    }
    const depsOf = (name: string) =>
      connectDeps(config, { ...life, name, share }, ['state', 'clickhouse', 'gate'])
    const [one, two] = [await depsOf('normalize'), await depsOf('lookup')]
    expect(two.state).toBe(one.state)
    expect(two.clickhouse).toBe(one.clickhouse)
    expect(two.gate).not.toBe(one.gate)
    const gates = (await life.metrics.text()).match(/^stage_paused\{stage="\w+"\}/gm)
    expect(gates).toEqual(['stage_paused{stage="normalize"}', 'stage_paused{stage="lookup"}'])
    expect([...opened.keys()]).toEqual(['state', 'clickhouse', 'gates'])
    // Two stores, the connection of the gates, and two gates.
    expect(life.closers).toHaveLength(5)
    for (const close of life.closers.toReversed()) await close()
  })
})
