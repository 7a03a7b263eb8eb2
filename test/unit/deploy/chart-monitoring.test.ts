import { describe, expect, it } from 'vitest'
import { NAMESPACE, scoped } from '../../../deploy/chart/monitoring.ts'

const HERE = `namespace="${NAMESPACE}"`

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
