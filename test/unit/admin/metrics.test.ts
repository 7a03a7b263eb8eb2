import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, expect, it } from 'vitest'
import { queryMetrics, metricsTargets } from '../../../services/admin/metrics.ts'

const folder = mkdtempSync(`${tmpdir()}/ops-metrics-`)
const noAddress = async () => []
afterAll(() => rmSync(folder, { recursive: true }))

it('metrics targets come from the environment, a file or the local stack', async () => {
  writeFileSync(`${folder}/targets.json`, '["http://local/metrics"]')
  writeFileSync(`${folder}/other.json`, '["http://other/metrics"]')
  const file = { METRICS_TARGETS_FILE: `${folder}/other.json` }
  expect(await metricsTargets({}, folder)).toEqual(['http://local/metrics'])
  expect(await metricsTargets(file, folder)).toEqual(['http://other/metrics'])
  expect(await metricsTargets({ METRICS_TARGETS: 'http://a, http://b' }, folder, noAddress))
    .toEqual(['http://a', 'http://b'])
  expect(await metricsTargets({ METRICS_TARGETS: '["http://a"]' }, folder, noAddress))
    .toEqual(['http://a'])
  const two = async () => ['10.0.0.1', '10.0.0.2'].map(address => ({ address, family: 4 }))
  expect(await metricsTargets({ METRICS_TARGETS: 'http://a/metrics' }, folder, two))
    .toEqual(['http://10.0.0.1/metrics', 'http://10.0.0.2/metrics'])
  expect(await metricsTargets({}, `${folder}/none`)).toEqual([])
})

it('a metrics query returns the named metrics and counts unreachable processes', async () => {
  const answers: Record<string, () => Response> = {
    'http://a': () => new Response('wanted{group="g"} 2\nother 1\n'),
    'http://b': () => new Response('', { status: 503 }),
    'http://c': () => { throw new Error('refused') },
  }
  const fetch = async (target: unknown) => answers[String(target)]?.() ?? new Response()
  expect(await queryMetrics(Object.keys(answers), new Set(['wanted']), fetch as never)).toEqual({
    processes: [[{ name: 'wanted', labels: { group: 'g' }, value: 2 }]], unreachable: 2,
  })
})
