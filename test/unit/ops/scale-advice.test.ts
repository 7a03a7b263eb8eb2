import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, describe, expect, it } from 'vitest'
import {
  costsOfMetrics, costsOfRun, measureCosts, parseCosts, readNewestRun,
} from '../../../services/ops/costs.ts'
import { adviceFor, adviceText } from '../../../services/ops/scale-advice.ts'

const folder = mkdtempSync(`${tmpdir()}/ops-scale-`)
afterAll(() => rmSync(folder, { recursive: true }))

const sample = (name: string, value: number, labels: Record<string, string> = {}) =>
  ({ name, value, labels })

describe('scaling costs', () => {
  it('of a saved run are per 100,000 rows, summed over instances', () => {
    expect(costsOfRun({
      rows: 50_000,
      processes: [
        { name: 'verify-1', cpuSeconds: 0.25 }, { name: 'verify-2', cpuSeconds: 0.5 },
        { name: 'redis-cache', cpuSeconds: 0.5 },
      ],
    })).toEqual({ verify: 1.5, 'redis-cache': 1 })
  })

  it('are parsed by stage', () => {
    expect(parseCosts(['verify=0.65', 'lookup=1'])).toEqual({ verify: 0.65, lookup: 1 })
    expect(() => parseCosts(['verify'])).toThrow('--cost verify is not stage=seconds')
    expect(() => parseCosts(['verify=-1'])).toThrow('--cost verify -1 is not a number above 0')
    expect(() => parseCosts(['kafka=1'])).toThrow('Stage kafka does not exist')
  })

  it('of running services are per row of a job', () => {
    const normalize = [
      sample('process_cpu_seconds_total', 1),
      sample('service_ready', 1, { stage: 'normalize' }),
      sample('stage_rows_total', 50_000, { stage: 'normalize' }),
    ]
    const verify = [
      sample('process_cpu_seconds_total', 2),
      sample('service_ready', 1, { stage: 'verify' }),
      sample('stage_rows_total', 1_000, { stage: 'verify' }),
    ]
    const ingest = [
      sample('process_cpu_seconds_total', 3), sample('service_ready', 1, { stage: 'ingest' }),
    ]
    const page = [
      sample('process_cpu_seconds_total', 9), sample('service_ready', 1, { stage: 'page' }),
    ]
    expect(costsOfMetrics([normalize, verify, ingest, page]))
      .toEqual({ normalize: 2, verify: 4, ingest: 6 })
    expect(() => costsOfMetrics([verify])).toThrow('processed 0 rows')
    expect(() => costsOfMetrics([[...normalize, ...verify]]))
      .toThrow('One process hosts normalize, verify, whose costs are not known apart')
  })

  it('come from the newest file, overridden by --cost', async () => {
    const call = (...cost: readonly string[]) => ({ env: {}, folder, options: { cost } })
    expect(await readNewestRun(folder)).toBeUndefined()
    expect(await measureCosts(call('verify=3'), folder))
      .toEqual({ costs: { verify: 3 }, source: '--cost' })
    await expect(measureCosts(call(), folder)).rejects.toThrow('processed 0 rows')
    const results = 'test/bench/results'
    mkdirSync(`${folder}/${results}`, { recursive: true })
    const write = (name: string, run: object) =>
      writeFileSync(`${folder}/${results}/${name}`, JSON.stringify(run))
    const processes = [{ name: 'verify', cpuSeconds: 1 }, { name: 'kafka', cpuSeconds: 2 }]
    write('2026-01-01-a.json', {})
    write('2026-02-01-b.json', { rows: 100_000, processes })
    expect(await measureCosts(call(), folder))
      .toEqual({ costs: { verify: 1, kafka: 2 }, source: `${results}/2026-02-01-b.json` })
    expect((await measureCosts(call('verify=3'), folder)).costs).toEqual({ verify: 3, kafka: 2 })
    const hosts = [{ name: 'ingest-1', cpuSeconds: 1 }, { name: 'pipeline-1', cpuSeconds: 2 }]
    write('2026-02-02-two-processes.json', { rows: 100_000, processes: hosts })
    expect((await readNewestRun(folder))?.source).toBe(`${results}/2026-02-01-b.json`)
    write('2026-03-01-c.json', {})
    await expect(readNewestRun(folder)).rejects.toThrow('has no costs')
  })
})

describe('scaling advice', () => {
  const costs = { normalize: 0.35, lookup: 0.7, verify: 4.2, ledger: 0.1, kafka: 0.5 }
  const advice = adviceFor(costs, { rowsPerSecond: 100_000, utilization: 0.7 })

  it('computes instances of one core at the utilization', () => {
    const of = (stage: string) => advice.stages.find(one => one.stage === stage)
    expect(of('normalize')).toMatchObject({ cores: 0.35, instances: 1, limitedBy: [] })
    expect(of('lookup')).toMatchObject({ cores: 0.7, instances: 1, limitedBy: [] })
    expect(of('verify')).toMatchObject({ cores: 4.2, instances: 6, limitedBy: ['rows.to-verify'] })
    expect([advice.instances, advice.cores]).toEqual([9, 5.85])
    expect(advice.others).toEqual([{ name: 'kafka', cores: 0.5 }])
    expect(advice.unknown).toEqual(['ingest', 'feed', 'settle', 'deliver', 'publish'])
  })

  it('computes the partitions of each topic', () => {
    expect(advice.topics).toEqual([
      { topic: 'rows.submitted', readBy: ['normalize'], partitions: 4, needed: 4 },
      { topic: 'rows.normalized', readBy: ['lookup'], partitions: 4, needed: 4 },
      { topic: 'rows.to-verify', readBy: ['verify'], partitions: 4, needed: 6 },
      { topic: 'wallet.journal', readBy: ['ledger'], partitions: 2, needed: 2 },
      { topic: 'job.keys', readBy: ['ledger'], partitions: 2, needed: 2 },
    ])
  })

  it('is formatted with changes and limits', () => {
    const text = adviceText({ ...advice, source: 'a test' }, (_, text) => text)
    expect(text)
      .toContain('For 100,000 rows/s at 70 % utilization of one core per instance; costs from a')
    expect(text).toMatch(/\nverify +4\.20 +4\.20 +6 {2}rows\.to-verify\n/)
    expect(text).toContain('Too few partitions: rows.to-verify 6.')
    expect(text).toContain('TOPIC_PARTITIONS=rows.to-verify=6 npm run provision')
    const large = adviceFor({ ledger: 2.1 }, { rowsPerSecond: 100_000, utilization: 0.7 })
    expect(adviceText({ ...large, source: 'a test' }, (_, text) => text))
      .toContain('\njob.keys cannot grow: compaction keeps')
    expect(text).toContain('Not scaled by instances, in cores: kafka 0.50.')
    expect(text).toContain('Unknown costs: ingest, feed, settle, deliver, publish.')
    const small = adviceFor({ verify: 1 }, { rowsPerSecond: 100, utilization: 1 })
    const little = adviceText({ ...small, source: 'a test' }, (_, text) => text)
    expect(little).toContain('All topics have enough partitions.')
    expect(little).toContain('which these costs do not include')
  })
})
