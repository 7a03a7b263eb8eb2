import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  capacityText, planCapacity, type CapacityPlan, type Installation,
} from '../../../services/ops/capacity.ts'
import { CPU_COSTS, MEASUREMENTS } from '../../../services/ops/measured-costs.ts'
import { parseTopicPartitions } from '../../../services/platform/topic-partitions.ts'
import { createOpsProgram } from '../../../services/ops/program.ts'

const installation = { rowsPerSecond: 50_000, jobsPerSecond: 500, utilization: 0.7, replication: 3 }
const silent = { write: () => {} }
const plain = (_style: string, text: string) => text

async function outputOf (...words: readonly string[]): Promise<string> {
  const lines: string[] = []
  await createOpsProgram(line => { lines.push(line) }, { terminal: silent, errors: silent })
    .parseAsync(['capacity', ...words], { from: 'user' })
  return lines.join('\n')
}

const stageOf = ({ stages }: CapacityPlan, name: string) =>
  stages.find(({ stage }) => stage === name)
const limitOf = ({ limits }: CapacityPlan, name: string) =>
  limits.find(({ limit }) => limit === name)
const needOf = ({ stores }: CapacityPlan, name: string, part: string) => stores
  .find(({ store }) => store === name)?.needs.find(({ what }) => what.includes(part))?.amount ?? NaN

describe('capacity', () => {
  const plan = planCapacity(installation)

  it('adds the costs of rows and of jobs', () => {
    expect(stageOf(plan, 'ingest')).toMatchObject({ cores: 1.05, instances: 2, limitedBy: [] })
    expect(plan.stores.find(({ store }) => store === 'redis-state')?.cores).toBe(0.525)
    // 50,000 rows of 1.2 microseconds, 500 jobs of 1.4 ms, and ten inserts of 15 ms.
    expect(plan.stores.find(({ store }) => store === 'clickhouse')?.cores).toBe(0.91)
    expect(plan.totalCores).toBeCloseTo(
      plan.stages.reduce((sum, { cores }) => sum + cores, 0) +
      plan.stores.reduce((sum, { cores }) => sum + cores, 0), 2)
  })

  it('keeps topics for their retention, in all replicas', () => {
    const single = planCapacity({ ...installation, replication: 1 })
    for (const part of ['in', 'on disk', 'journal']) {
      expect(needOf(plan, 'kafka', part)).toBeCloseTo(3 * needOf(single, 'kafka', part), 0)
    }
    // 1.2 kB per job, of the journal alone.
    expect(needOf(single, 'kafka', 'journal')).toBeCloseTo(500 * 1_200 * 86_400 / 1e9, 3)
  })

  it('counts the memory of closed jobs and of idempotency keys', () => {
    expect(needOf(plan, 'redis-state', 'closed jobs')).toBeCloseTo(500 * 4_400 * 600 / 1e9, 3)
    expect(needOf(plan, 'redis-state', 'idempotency')).toBeCloseTo(500 * 145 * 86_400 / 1e9, 3)
    expect(needOf(plan, 'redis-cache', 'memory')).toBe(50_000 * 400 * 86_400 / 1e9)
  })

  it('inserts at most ten times a second per instance of settle', () => {
    const inserts = (jobsPerSecond: number) => needOf(
      planCapacity({ ...installation, jobsPerSecond, rowsPerSecond: jobsPerSecond }),
      'clickhouse', 'inserts')
    expect([inserts(3), inserts(140), inserts(1_000)]).toEqual([3, 10, 20])
  })

  it('computes the load of a limit, and its next step', () => {
    expect(limitOf(plan, '1 state Redis')).toMatchObject({
      isReached: false,
      next: expect.stringContaining('a cluster for the state'),
    })
    // 0.7 of a core, of which a job with its 100 rows takes 1.05 ms.
    expect(limitOf(plan, '1 state Redis')?.jobsPerSecond).toBeCloseTo(700 / 1.05, 3)
    expect(limitOf(plan, '1 instance of ingest')).toMatchObject({ isReached: true })
    expect(limitOf(plan, '4 instances of verify')?.next).toBe('more partitions of rows.to-verify')
    expect(limitOf(plan, '2 cores')).toBeUndefined()
    const machine = planCapacity({ ...installation, cores: 2 })
    expect(machine.limits[0]).toMatchObject({ limit: '2 cores', isReached: true })
  })

  it('takes other numbers of partitions', () => {
    const partitions = parseTopicPartitions('8,rows.to-verify.bulk=16')
    const more = planCapacity({ ...installation, partitions })
    expect(limitOf(more, '8 instances of verify')?.next).toBe('more partitions of rows.to-verify')
    expect(limitOf(more, '2 instances of ledger')?.next)
      .toBe('more partitions of wallet.journal, job.keys: fixed once created')
    expect(more.topics.find(({ topic }) => topic === 'rows.completed')?.partitions).toBe(8)
  })

  it('is printed with the first limits and their next steps', () => {
    const text = capacityText(plan, plain)
    expect(text).toMatch(/^For 50,000 rows\/s in 500 jobs\/s at 70 % utilization of a core per/)
    expect(text).toContain('\nFirst limit: 1 instance of ingest, at 33,333 rows/s in 333 jobs/s. ' +
      'Next step: more instances.\n')
    expect(text).toContain('\nFirst that more instances do not raise: 1 state Redis, at ')
    expect(text).toContain('\nFirst above this load: 1 instance of verify, at 51,852 rows/s')
    const large = capacityText(planCapacity({ ...installation, rowsPerSecond: 1e6 }), plain)
    expect(large).toMatch(/\nverify +4\.00 +6 {2}rows\.to-verify\n/)
    expect(large).toContain('\nrows.to-verify 6 (now 4)\n')
  })

  it('has a source for every cost', () => {
    for (const { sources } of Object.values(CPU_COSTS)) expect(sources).not.toEqual([])
    for (const text of Object.values(MEASUREMENTS)) expect(text).toMatch(/^\d{4}-\d\d-\d\d: /)
  })
})

describe('the command capacity', () => {
  const rates = ['--rows-per-second', '1000', '--jobs-per-second', '10']

  it('prints a plan as JSON', async () => {
    expect(JSON.parse(await outputOf(...rates, '--json'))).toEqual(JSON.parse(JSON.stringify(
      planCapacity({ ...installation, rowsPerSecond: 1_000, jobsPerSecond: 10 }))))
    expect(await outputOf(...rates, '--cores', '0.01')).toContain('First limit: 0.01 cores, at ')
  })

  it('rejects invalid numbers', async () => {
    for (const [words, message] of [
      [['--rows-per-second', 'x', '--jobs-per-second', '1'], 'x is not a number above 0'],
      [['--rows-per-second', '5', '--jobs-per-second', '0'], 'second 0 is not a number above 0'],
      [['--rows-per-second', '5', '--jobs-per-second', '6'], 'A job has at least one row'],
      [[...rates, '--utilization', '2'], '--utilization 2 is not a share'],
      [[...rates, '--replication', '1.5'], '--replication 1.5 is not an integer'],
      [[...rates, '--replication', '0'], '--replication 0 is not a number above 0'],
      [[...rates, '--partitions', 'x=8'], '--partitions x=8: x is not a topic'],
      [[...rates, '--cores', '-1'], '--cores -1 is not a number above 0'],
    ] as const) {
      await expect(outputOf(...words)).rejects.toThrow(message)
    }
  })
})

const loads: fc.Arbitrary<Installation> = fc.record({
  jobsPerSecond: fc.double({ min: 0.01, max: 1e5, noNaN: true }),
  rowsPerJob: fc.double({ min: 1, max: 1e5, noNaN: true }),
  utilization: fc.double({ min: 0.05, max: 1, noNaN: true }),
  replication: fc.integer({ min: 1, max: 5 }),
  cores: fc.double({ min: 0.5, max: 1_000, noNaN: true }),
}).map(({ rowsPerJob, ...load }) => ({ ...load, rowsPerSecond: load.jobsPerSecond * rowsPerJob }))

/** All that a plan needs, as numbers. */
const needsOf = ({ stages, topics, stores, totalCores }: CapacityPlan): readonly number[] => [
  totalCores,
  ...stages.flatMap(({ cores, instances }) => [cores, instances]),
  ...topics.map(({ needed }) => needed),
  ...stores.flatMap(({ cores, needs }) => [cores, ...needs.map(({ amount }) => amount)]),
]

describe('any load', () => {
  const more = fc.double({ min: 0, max: 10, noNaN: true })

  it('needs no less of anything than a smaller one', () => {
    fc.assert(fc.property(loads, more, more, (load, rows, jobs) => {
      const rowsPerSecond = load.rowsPerSecond * (1 + rows)
      const jobsPerSecond = Math.min(load.jobsPerSecond * (1 + jobs), rowsPerSecond)
      const larger = needsOf(planCapacity({ ...load, rowsPerSecond, jobsPerSecond }))
      expect(needsOf(planCapacity(load)).filter((need, index) => (larger[index] ?? 0) < need))
        .toEqual([])
    }))
  })

  it('reaches its first limit first, and no limit below it', () => {
    const reachedAt = (load: Installation, first: Installation, factor: number) => planCapacity({
      ...load,
      rowsPerSecond: first.rowsPerSecond * factor,
      jobsPerSecond: first.jobsPerSecond * factor,
    }).limits.filter(({ isReached }) => isReached).map(({ limit }) => limit)
    fc.assert(fc.property(loads, load => {
      const [first] = planCapacity(load).limits
      if (first === undefined) throw new Error('a plan has no limits')
      const at = { ...load, ...first }
      expect(reachedAt(load, at, 0.999)).toEqual([])
      expect(reachedAt(load, at, 1.001)).toContain(first.limit)
    }))
  })
})
