import { describe, expect, it } from 'vitest'
import { askFor } from '../../../deploy/grafana/metric-query.ts'
import { METRICS } from '../../../services/runtime/platform/metric-list.ts'
import { dashboards, panelQueries, type GridPosition } from '../../support/deploy/dashboards.ts'

const overlap = (one: GridPosition, other: GridPosition) =>
  one.x < other.x + other.w && other.x < one.x + one.w &&
  one.y < other.y + other.h && other.y < one.y + one.h

describe('dashboards', () => {
  it('show every metric there is', () => {
    const shown = panelQueries().map(({ expr }) => expr).join('\n')
    // Lag is shown by partition, and as recorded for each group.
    expect(METRICS.map(({ name }) => name).filter(name => !shown.includes(name))).toEqual([])
  })

  it('are of a form that Grafana reads, with a data source to choose', () => {
    const all = dashboards()
    expect(new Set(all.map(({ uid }) => uid)).size).toBe(7)
    for (const { schemaVersion, description, templating, panels } of all) {
      expect(schemaVersion).toBe(41)
      expect(description).not.toBe('')
      expect(templating.list[0]).toMatchObject({ name: 'datasource', type: 'datasource' })
      expect(panels.map(({ id }) => id)).toEqual(panels.map((_, index) => index + 1))
    }
  })

  it('describe every panel, its unit and each of its lines', () => {
    for (const { panels } of dashboards()) {
      for (const panel of panels.filter(({ type }) => type !== 'row')) {
        expect(panel.description, panel.title).toMatch(/\S/)
        expect(panel.fieldConfig?.defaults.unit, panel.title).toMatch(/\S/)
        expect(panel.targets?.length, panel.title).toBeGreaterThan(0)
        for (const { legendFormat } of panel.targets ?? []) expect(legendFormat).toMatch(/\S/)
      }
    }
  })

  it('have no panel above another one or beside the page', () => {
    for (const { panels } of dashboards()) {
      const places = panels.map(({ gridPos }) => gridPos)
      expect(places.filter(({ x, w }) => x < 0 || x + w > 24)).toEqual([])
      expect(places.filter((one, index) =>
        places.some((other, at) => at > index && overlap(one, other)))).toEqual([])
    }
  })
})

describe('a query', () => {
  it('follows from the type of its metric', () => {
    const of = (shown: Parameters<typeof askFor>[0]) => askFor(shown).queries.map(one => one.expr)
    expect(of({ metric: 'jobs_total', by: ['event'], where: 'mode="live"' }))
      .toEqual(['sum by (event) (rate(jobs_total{mode="live"}[$__rate_interval]))'])
    expect(of({ metric: 'money_micros', by: ['state'] }))
      .toEqual(['max by (state) (money_micros) / 1000000'])
    expect(of({ metric: 'stage_blocked', sum: true })).toEqual(['sum (stage_blocked)'])
    expect(of({ metric: 'http_request_seconds', by: ['route'] })[1]).toBe(
      'histogram_quantile(0.95, sum by (le, route) ' +
      '(rate(http_request_seconds_bucket[$__rate_interval])))')
  })

  it('is refused for what no metric has', () => {
    expect(() => askFor({ metric: 'jobs' })).toThrow('there is no metric jobs')
    expect(() => askFor({ metric: 'jobs_total', by: ['tenant'] })).toThrow('no label tenant')
  })
})
