import { describe, expect, it } from 'vitest'
import { promtool } from '../support/prometheus-install.ts'

const root = `${import.meta.dirname}/../..`

describe('what Prometheus is given', () => {
  it('is a configuration with rules that it understands', async () => {
    const said = await promtool(['check', 'config', 'deploy/prometheus/prometheus.yml'], root)
    expect(said).toContain('2 rule files found')
    expect(said).not.toContain('FAILED')
  })

  it('has alerts that fire on what they are for, and on nothing else', async () => {
    const said = await promtool(['test', 'rules', 'alerts.test.yml'], import.meta.dirname)
    expect(said).toContain('SUCCESS')
  })
})
