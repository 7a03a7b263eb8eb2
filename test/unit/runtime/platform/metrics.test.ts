import { describe, expect, it } from 'vitest'
import { listInitialSeries, METRICS } from '../../../../services/runtime/platform/metric-list.ts'
import {
  createCachedReading, createMetrics, resolveAllAddresses,
} from '../../../../services/runtime/platform/metrics.ts'

const HOSTS: Record<string, readonly (readonly [string, 4 | 6])[]> = {
  'jobs-metrics': [['10.0.0.9', 4], ['10.0.0.2', 4]],
  both: [['fd00::2', 6], ['10.0.0.2', 4], ['fd00::1', 6]],
  localhost: [['::1', 6], ['127.0.0.1', 4]],
  '127.0.0.1': [['127.0.0.1', 4]],
}

const find = async (host: string) => {
  const found = HOSTS[host]
  if (found === undefined) throw new Error('ENOTFOUND')
  return found.map(([address, family]) => ({ address, family }))
}

it('URLs are resolved to one per address, if a host has several of one family', async () => {
  const kept = [
    'http://127.0.0.1:9101/metrics', 'http://localhost:9101/metrics', 'http://gone:9464/metrics',
    'https://jobs-metrics:9464/metrics',
  ]
  expect(await resolveAllAddresses(
    ['http://jobs-metrics:9464/metrics', 'http://both:9464/metrics', ...kept], find)).toEqual([
    'http://10.0.0.2:9464/metrics', 'http://10.0.0.9:9464/metrics',
    // A host of both families is there once.
    'http://[fd00::1]:9464/metrics', 'http://[fd00::2]:9464/metrics', ...kept,
  ])
})

it('metrics report all series of a reading, and drop those it leaves out', async () => {
  const metrics = createMetrics()
  let partitions = ['0', '1']
  metrics.watchAll('consumer_lag_messages', async () => partitions.map((partition, index) =>
    ({ labels: { stage: 'lookup', group: 'g', topic: 't', partition }, value: index + 5 })))
  const lines = async () =>
    (await metrics.text()).split('\n').filter(line => line.startsWith('consumer_lag_messages{'))
  expect((await lines()).map(line => line.slice(-16))).toEqual(
    ['partition="0"} 5', 'partition="1"} 6'])
  partitions = ['1']
  expect((await lines()).map(line => line.slice(-16))).toEqual(['partition="1"} 5'])
})

function createEnvironment () {
  const warned: string[] = []
  let [nowMs, reads] = [0, 0]
  let next = async () => [++reads]
  const log = { warn: (_details: object, text: string) => { warned.push(text) } }
  const read = createCachedReading(() => next(), {
    name: 'it', log: log as never, minAgeMs: 1_000, timeoutMs: 20, now: () => nowMs,
  })
  return {
    read,
    warned,
    advance: (ms: number) => { nowMs += ms },
    behave: (action: () => Promise<number[]>) => { next = action },
  }
}

describe('a cached reading', () => {
  it('reads on demand, and returns the last value while it is recent', async () => {
    const { read, advance } = createEnvironment()
    expect([await read(), await read()]).toEqual([[1], [1]])
    advance(999)
    expect(await read()).toEqual([1])
    advance(1)
    expect(await read()).toEqual([2])
  })

  it('returns nothing after a failure, and reads again', async () => {
    const { read, advance, behave, warned } = createEnvironment()
    behave(async () => { throw new Error('down') })
    expect(await read()).toEqual([])
    expect(warned).toEqual(['failed to read it for metrics'])
    behave(async () => [7])
    advance(1_000)
    expect(await read()).toEqual([7])
  })

  it('returns the previous value of a slow read until maxAgeMs, and reads once', async () => {
    const { read, advance, behave } = createEnvironment()
    expect(await read()).toEqual([1])
    const slow = Promise.withResolvers<number[]>()
    let started = 0
    behave(() => {
      started++
      return slow.promise
    })
    advance(30_000)
    expect(await read()).toEqual([1])
    advance(1)
    expect(await read()).toEqual([])
    expect(started).toBe(1)
    slow.resolve([3])
    expect(await read()).toEqual([3])
  })
})

describe('the sources of metrics', () => {
  it('name the services of each metric, and have initial series with all of its labels', () => {
    for (const metric of METRICS) {
      expect(metric.by.length, metric.name).toBeGreaterThan(0)
      for (const stage of metric.by) {
        for (const labels of listInitialSeries(metric, stage)) {
          expect(Object.keys(labels).sort(), metric.name).toEqual([...metric.labels].sort())
        }
      }
    }
  })

  it('report initial series from the start, so that the first event counts', async () => {
    const text = await createMetrics(['lookup']).text()
    expect(text).toContain('stage_dead_letters_total{stage="lookup",cause="unreadable"} 0')
    expect(text).toContain('stage_step_seconds_count{stage="lookup",step="commit"} 0')
    expect(text).toContain('process_resident_memory_bytes ')
    expect(text).not.toContain('stage="settle"')
    expect(await createMetrics(['ledger']).text())
      .toContain('records_forged_total{table="access_log"} 0')
  })
})
