import { describe, expect, it } from 'vitest'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { METRICS } from '../../../../services/runtime/platform/metric-list.ts'

describe('metrics', () => {
  it('have unique names and help texts', async () => {
    const text = await createMetrics().text()
    expect(new Set(METRICS.map(({ name }) => name)).size).toBe(METRICS.length)
    for (const { name, help } of METRICS) expect(text).toContain(`# HELP ${name} ${help}`)
  })

  it('count and measure by their labels', async () => {
    const metrics = createMetrics()
    metrics.count('stage_expired_total', { stage: 'normalize' })
    metrics.count('stage_expired_total', { stage: 'normalize' }, 4)
    metrics.observe('http_request_seconds', { method: 'GET', route: '/x' }, 0.3)
    const text = await metrics.text()
    expect(text).toContain('stage_expired_total{stage="normalize"} 5')
    expect(text).toContain('http_request_seconds_sum{method="GET",route="/x"} 0.3')
  })

  it('read watched values at each scrape', async () => {
    const metrics = createMetrics()
    let held = 1
    metrics.watch('stage_held_messages', { stage: 'lookup', group: 'a' }, () => held)
    metrics.watch('stage_held_messages', { stage: 'lookup', group: 'b' }, () => 7)
    held = 2
    const text = await metrics.text()
    expect(text).toContain('stage_held_messages{stage="lookup",group="a"} 2')
    expect(text).toContain('stage_held_messages{stage="lookup",group="b"} 7')
  })

  it('report all series of a reading, and drop those it leaves out', async () => {
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
})
