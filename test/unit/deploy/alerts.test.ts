import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { METRICS } from '../../../services/runtime/platform/metric-list.ts'
import { STAGES } from '../../../services/topology.ts'
import { ruleTests, runbookSteps, writtenAlerts } from '../../support/deploy/alerts.ts'

const alerts = writtenAlerts()
const names = alerts.map(({ name }) => name)
const PARTS = ['**Means.**', '**Look.**', '**Do.**', '**Caused by.**']

describe('alerts', () => {
  it('have a step in the runbook each, in the same order, and none is left over', () => {
    expect([...runbookSteps().keys()]).toEqual(names)
  })

  it('have Means, Look, Do and Caused by in the runbook', () => {
    const lacking = [...runbookSteps()].flatMap(([name, text]) =>
      PARTS.filter(part => !text.includes(part)).map(part => `${name}: ${part}`))
    expect(lacking).toEqual([])
  })

  it('say how bad it is, in a sentence, and name their step', () => {
    for (const { name, text } of alerts) {
      expect(text).toMatch(/severity: (page|ticket)\n/)
      expect(text).toMatch(/summary: '.+'\n/)
      expect(text).toContain(`runbook_url: deploy/docs/runbook.md#${name.toLowerCase()}\n`)
    }
  })

  it('select by labels that the metrics have', () => {
    const labels = new Map(METRICS.map(({ name, labels }) =>
      [name as string, ['instance', 'job', ...labels]]))
    const wrong = alerts.flatMap(({ name, text }) =>
      [...text.matchAll(/(\w+)\{([^{}]+)\}/g)].flatMap(([, metric = '', selector = '']) =>
        [...selector.matchAll(/(\w+)\s*[=!]~?"/g)].map(([, label = '']) => label)
          .filter(label => labels.get(metric)?.includes(label) === false)
          .map(label => `${name}: ${metric}{${label}}`)))
    expect(wrong).toEqual([])
  })

  it('are tested twice each: to fire, and not to fire', () => {
    expect(ruleTests().map(({ name }) => name))
      .toEqual(names.flatMap(name => [`${name} fires`, `${name} stays quiet`]))
  })

  it('and targets know every stage of the topology', () => {
    const missing = alerts.find(({ name }) => name === 'StageMissing')?.text ?? ''
    const watched = [...missing.matchAll(/absent\(up\{job="(\w+)"\}\)/g)].map(([, stage]) => stage)
    expect(watched).toEqual(STAGES)
    const config = new URL('../../../deploy/prometheus/prometheus.yml', import.meta.url)
    const scraped = /names: \[(.+)\]/.exec(readFileSync(config, 'utf8'))?.[1]?.split(', ')
    expect(scraped).toEqual([...STAGES, 'page'])
  })
})
