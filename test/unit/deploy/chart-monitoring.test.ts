import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { monitoringFiles, NAMESPACE, scoped } from '../../../deploy/chart/monitoring.ts'
import { root } from '../../support/sources.ts'
import { yamlOf } from '../../support/deploy/yaml.ts'

const HERE = `namespace="${NAMESPACE}"`

type Group = { readonly rules: readonly { readonly expr: string }[] }
type Rules = { readonly groups: readonly Group[] }

function queriesOf (text: string): readonly string[] {
  const [{ groups }] = yamlOf(text) as readonly [Rules]
  return groups.flatMap(({ rules }) => rules.map(({ expr }) => expr))
}

it.each(['recording.yml', 'alerts.yml'])('every rule of %s is of one namespace', name => {
  const written = readFileSync(join(root, 'deploy/prometheus', name), 'utf8')
  const ofChart = monitoringFiles().get(`rules/${name}`) ?? ''
  expect(queriesOf(ofChart)).toEqual(queriesOf(written).map(scoped))
})

describe('a query of one namespace', () => {
  it.each([
    ['up == 0', `up{${HERE}} == 0`],
    ['up{} or absent(up{job="a"})', `up{${HERE}} or absent(up{${HERE},job="a"})`],
    ['group:lag:sum{group=~"a|b"} > 700e6', `group:lag:sum{${HERE},group=~"a|b"} > 700e6`],
    ['sum by (le, up) (rate(x_bucket[5m]))', `sum by (le, up) (rate(x_bucket{${HERE}}[5m]))`],
    ['max (x) by (job)', `max (x{${HERE}}) by (job)`],
    ['0.5 * a / on (job) group_left (version) b offset 5m',
      `0.5 * a{${HERE}} / on (job) group_left (version) b{${HERE}} offset 5m`],
    ['a unless ignoring (up) b', `a{${HERE}} unless ignoring (up) b{${HERE}}`],
    ['rate(a{path=~"/{x}.*"}[$__rate_interval])',
      `rate(a{${HERE},path=~"/{x}.*"}[$__rate_interval])`],
    ['vector(1) > bool time()', 'vector(1) > bool time()'],
  ])('%s', (query, wanted) => {
    expect(scoped(query)).toBe(wanted)
  })
})
