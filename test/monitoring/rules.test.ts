import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ruleTests, runbookSteps, writtenAlerts } from '../support/deploy/alerts.ts'
import { promtool } from '../support/deploy/tools.ts'
import { newFolder } from '../support/folder.ts'
import { root } from '../support/sources.ts'

describe('what Prometheus is given', () => {
  it('is a configuration with rules that it understands', async () => {
    const said = await promtool(['check', 'config', 'deploy/prometheus/prometheus.yml'], root)
    expect(said).toContain('2 rule files found')
    expect(said).not.toContain('FAILED')
  })

  it('has alerts that fire on what they are for, and on nothing else', async () => {
    const folder = newFolder('verification-jobs-rules-')
    // JSON is YAML as well.
    writeFileSync(`${folder}/alerts.test.yml`, JSON.stringify({
      rule_files: ['recording.yml', 'alerts.yml'].map(name => `${root}/deploy/prometheus/${name}`),
      evaluation_interval: '30s',
      tests: ruleTests(),
    }))
    const said = await promtool(['test', 'rules', 'alerts.test.yml'], folder)
    expect(said).toContain('SUCCESS')
  })

  it('has alerts that are caused on a real stack, but for those the runbook says are not', () => {
    const tests = globSync('causing*.test.ts', { cwd: import.meta.dirname })
      .map(name => readFileSync(`${import.meta.dirname}/${name}`, 'utf8')).join('')
    const waitedFor = [...tests.matchAll(/untilFiring\(([^()]+)\)/g)]
      .flatMap(([, names = '']) => [...names.matchAll(/'(\w+)'/g)].map(([, name]) => name))
    const steps = runbookSteps()
    const caused = writtenAlerts().map(({ name }) => name)
      .filter(name => !/Caused by\.\*\* Synthetic series only/.test(steps.get(name) ?? ''))
    expect([...new Set(waitedFor)].sort()).toEqual(caused.toSorted())
  })
})
