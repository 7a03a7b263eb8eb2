import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { connectClickhouse } from '../../../services/platform/clickhouse.ts'
import { connectDeps } from '../../../services/engine/connections.ts'
import { createLog } from '../../../services/platform/log.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'

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

  it('opens unavailable dependencies, which fail when they are used', async () => {
    const clickhouse = connectClickhouse('http://127.0.0.1:1')
    await expect(clickhouse.query({ query: 'SELECT 1' })).rejects.toThrow('ECONNREFUSED')
    await clickhouse.close()
  })
})
