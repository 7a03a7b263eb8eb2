import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { METRICS } from '../../services/runtime/platform/metric-list.ts'
import { render, type Rule, type RuleGroup, minimal } from '../support/deploy/chart.ts'
import { ruleTests } from '../support/deploy/alerts.ts'
import { dashboardFiles, panelQueries } from '../support/deploy/dashboards.ts'
import { promtool } from '../support/deploy/tools.ts'
import { root } from '../support/sources.ts'
import { yamlOf } from '../support/deploy/yaml.ts'
import { newFolder } from '../support/folder.ts'

/** The namespace that the chart is rendered for. */
const HERE = 'namespace="jobs"'
/** What fires for want of series does so too when only those of others are there. */
const ON_ABSENCE = /^(StageMissing|LagUnknown|StoresUnknown) /
const PERIODS = { $__rate_interval: '1m', $__range: '1h' }

const ofKind = (kind: string) => manifests.filter(manifest => manifest.kind === kind)
const groups = (): readonly RuleGroup[] =>
  ofKind('PrometheusRule').flatMap(rule => rule.spec.groups)
const rules = (): readonly Rule[] => groups().flatMap(group => group.rules)
const boards = () => ofKind('ConfigMap').flatMap(({ data = {} }) => Object.entries(data))

const withoutScope = (text: string) =>
  text.replaceAll(`{${HERE}}`, '').replaceAll(`${HERE},`, '')

/** Names of metrics that a query takes from all namespaces. */
function unscoped (query: string): readonly string[] {
  const own = METRICS.map(({ name }) => name)
  const known = [...own, ...rules().flatMap(({ record = [] }) => record), 'up', 'ALERTS']
  const name = `(?:${known.join('|')}|(?:process|nodejs)_\\w+?)(?:_bucket|_sum|_count)?`
  return query.match(new RegExp(`(?<![\\w:])${name}(?![\\w:])(?!\\{${HERE})`, 'g')) ?? []
}

/** `up{job="a"}` or `up`, as a series of a namespace. */
const inNamespace = (series: string, namespace: string) =>
  series.replace(/^([\w:]+)\{?/, `$1{namespace="${namespace}",`) +
  (series.includes('{') ? '' : '}')

async function written (name: string): Promise<readonly RuleGroup[]> {
  const text = readFileSync(join(root, 'deploy/prometheus', name), 'utf8')
  const [{ groups: found }] = yamlOf(text) as readonly [{ groups: RuleGroup[] }]
  return found
}

/** JSON is YAML as well. */
function save (name: string, content: object): string {
  writeFileSync(join(folder, name), JSON.stringify(content))
  return name
}

const folder = newFolder('verification-jobs-rules-')
const manifests = await render()
save('rules.yml', { groups: groups() })

describe('the rules of the chart', () => {
  it('are those of compose, but for the namespace: same times, labels and words', async () => {
    const wanted = [...await written('recording.yml'), ...await written('alerts.yml')]
    expect(rules().filter(({ alert }) => alert !== undefined).length).toBeGreaterThan(25)
    expect(groups().map(group => ({
      ...group, rules: group.rules.map(rule => ({ ...rule, expr: withoutScope(rule.expr) })),
    }))).toEqual(wanted.map(group => ({
      ...group,
      rules: group.rules.map(rule => ({ ...rule, labels: { ...rule.labels, namespace: 'jobs' } })),
    })))
  })

  it('select only the namespace of the chart', () => {
    expect(rules().flatMap(({ expr }) => unscoped(expr))).toEqual([])
    expect(unscoped('sum(up) / stage_rows_total')).toEqual(['up', 'stage_rows_total'])
  })

  it('fire or not like those of compose, on series of this namespace', async () => {
    expect(await tried('jobs', 'as written')).toContain('SUCCESS')
  })

  it('do not fire for what others run', async () => {
    expect(await tried('others', 'never')).toContain('SUCCESS')
  })

  it('name the page of the runbook that values say', async () => {
    const prefix = 'https://git.example.com/main/'
    const other = await render([...minimal, '--set', `prometheusRule.runbookPrefix=${prefix}`])
    const urls = other.filter(({ kind }) => kind === 'PrometheusRule')
      .flatMap(({ spec }) => spec.groups).flatMap(group => group.rules)
      .flatMap(({ annotations }) => annotations?.runbook_url ?? [])
    expect(urls).toHaveLength(rules().filter(({ alert }) => alert).length)
    expect(urls.filter(url => !url.startsWith(`${prefix}deploy/docs/runbook.md#`))).toEqual([])
  })

  /** Runs the tests of the rules with series of a namespace, on the rules as rendered. */
  async function tried (namespace: string, firing: 'as written' | 'never'): Promise<string> {
    const chosen = ruleTests()
      .filter(({ name }) => firing === 'as written' || !ON_ABSENCE.test(name))
    const name = save(`${namespace}.test.yml`, {
      rule_files: ['rules.yml'],
      evaluation_interval: '30s',
      tests: chosen.map(test => ({
        ...test,
        input_series: test.input_series.map(one =>
          ({ ...one, series: inNamespace(one.series, namespace) })),
        promql_expr_test: test.promql_expr_test.map(wanted =>
          firing === 'never' ? { ...wanted, exp_samples: [] } : wanted),
      })),
    })
    return await promtool(['test', 'rules', name], folder)
  }
})

describe('the dashboards of the chart', () => {
  it('are those of compose, but for the namespace', () => {
    const found = boards().map(([name, text]) =>
      [name.replace('verification-jobs-', ''), JSON.parse(text, (_, value: unknown) =>
        typeof value === 'string' ? withoutScope(value) : value) as object])
    expect(found).toEqual([...dashboardFiles()].map(([name, text]) =>
      [name, JSON.parse(text) as object]))
  })

  it('select only the namespace of the chart, with valid queries', async () => {
    const queries = boards()
      .flatMap(([, text]) => [...text.matchAll(/"expr":("(?:[^"\\]|\\.)*")/g)])
      .map(([, query = '']) => JSON.parse(query) as string)
    expect(queries).toHaveLength(panelQueries().length)
    expect(queries.flatMap(unscoped)).toEqual([])
    const lists = boards().flatMap(([, text]) => text.match(/label_values\([^)]+\)/g) ?? [])
    expect(lists.length).toBeGreaterThan(2)
    expect(lists.flatMap(list => unscoped(list.replaceAll('\\"', '"')))).toEqual([])
    const records = queries.map((query, index) => ({
      record: `query_${index}`,
      expr: query.replace(/\$__rate_interval|\$__range/g, name => PERIODS[name as '$__range']),
    }))
    const file = save('boards.yml', { groups: [{ name: 'boards', rules: records }] })
    expect(await promtool(['check', 'rules', file], folder))
      .toContain(`SUCCESS: ${queries.length} rules found`)
  })

  it('have the label by which the side car finds them', () => {
    for (const { metadata } of ofKind('ConfigMap')) {
      expect(metadata.labels.grafana_dashboard).toBe('1')
    }
    expect(ofKind('ConfigMap')).toHaveLength(dashboardFiles().size)
  })
})

it('rules and dashboards can be left out', async () => {
  const bare = await render([
    ...minimal, '--set', 'prometheusRule.enabled=false', '--set', 'dashboards.enabled=false',
  ])
  const kinds = new Set(bare.map(({ kind }) => kind))
  expect([kinds.has('PrometheusRule'), kinds.has('ConfigMap')]).toEqual([false, false])
  expect(kinds.has('PodMonitor')).toBe(true)
})
