import { describe, expect, it } from 'vitest'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { initialSeriesOf, METRICS } from '../../../../services/runtime/platform/metric-list.ts'

const definition = (name: string) => METRICS.find(metric => metric.name === name) as
  typeof METRICS[number]

describe('the sources of metrics', () => {
  it('name the services that report each metric', () => {
    expect(METRICS.filter(({ by }) => by.length === 0)).toEqual([])
  })

  it('have initial series with all labels of their metric', () => {
    for (const metric of METRICS) {
      for (const stage of metric.by) {
        for (const labels of initialSeriesOf(metric, stage)) {
          expect(Object.keys(labels).sort(), metric.name).toEqual([...metric.labels].sort())
        }
      }
    }
  })

  it('have the lanes and services of a stage', () => {
    const rows = definition('stage_rows_total')
    expect(initialSeriesOf(rows, 'normalize')).toEqual([
      { stage: 'normalize', lane: 'small', service: '' },
      { stage: 'normalize', lane: 'bulk', service: '' },
    ])
    expect(initialSeriesOf(rows, 'verify')).toHaveLength(12)
    expect(initialSeriesOf(rows, 'ingest')).toEqual([])
    expect(initialSeriesOf(rows, 'workspace')).toEqual([])
  })

  it('report initial series from the start, so that the first event counts', async () => {
    const text = await createMetrics(undefined, { services: ['lookup'] }).text()
    expect(text).toContain('stage_dead_letters_total{stage="lookup",cause="unreadable"} 0')
    expect(text).toContain('stage_step_seconds_count{stage="lookup",step="commit"} 0')
    expect(text).toContain('process_resident_memory_bytes ')
    expect(text).not.toContain('stage="settle"')
  })
})
