import { decodeTime } from 'ulid'
import { describe, expect, it } from 'vitest'
import type { Job } from '../../../../services/jobs/job.ts'
import {
  createArchive, readUsage, type UsageOptions,
} from '../../../../services/jobs/results/archive.ts'
import { endedJob } from '../../../support/clickhouse/results.ts'
import { recordMacOf, storedJob } from '../../../support/keys/signed.ts'
import { TENANT } from '../../../support/stage-messages.ts'
import { createClickhouseDouble } from '../../../support/clickhouse/stored.ts'

const [FROM, TO] = ['2026-08-10', '2026-08-12'].map(text => Date.parse(text)) as [number, number]
const NOON = Date.parse('2026-08-10T12:00:00Z')
const idOf = (number: number) => `job_01jd3v8zj7m5n2k4q6r8s${String(number).padStart(5, '0')}`

function jobOf (number: number, { rows = 3, ...change }: Partial<Job> & { rows?: number } = {}) {
  const job = endedJob({ id: idOf(number), createdAtMs: NOON, chargedMicros: rows * 10, ...change })
  return {
    ...job,
    preflight: { ...job.preflight, totalRows: rows },
    counts: { ...job.counts, freshRecords: rows, successRecords: rows, failedRecords: 0 },
  }
}

/** The usage by records of these jobs; `forged` rows have an invalid signature. */
async function usageOf (
  jobs: readonly Job[], options: Partial<UsageOptions> = {},
  forged: readonly Job[] = []
) {
  const rows = [
    ...jobs.map(job => storedJob(job, [])),
    ...forged.map(job => ({ ...storedJob(job, []), mac: 'x' })),
  ].toSorted((one, other) => one.job < other.job ? -1 : 1)
  const double = createClickhouseDouble(rows)
  const archive = createArchive(double.clickhouse, recordMacOf())
  const usage = await readUsage(archive, TENANT,
    { fromMs: FROM, toMs: TO, groupBy: ['day'], ...options })
  return { usage, queries: double.queries }
}

describe('usage', () => {
  it('adds up jobs, rows and money by day, service and key', async () => {
    const { usage } = await usageOf([
      jobOf(1, { apiKey: 'key_1' }),
      jobOf(2, { apiKey: 'key_1', createdAtMs: NOON + 86_400_000 }),
      jobOf(3, { service: 'whatsapp', rows: 4 }),
    ], { groupBy: ['day', 'service', 'key'] })
    expect(usage).toMatchObject({
      kind: 'usage',
      groups: [
        { day: '2026-08-10', service: 'phone-validation', key: 'key_1', jobs: 1, totalRows: 3 },
        { day: '2026-08-10', service: 'whatsapp', key: null, jobs: 1, totalRows: 4 },
        { day: '2026-08-11', service: 'phone-validation', key: 'key_1', jobs: 1, totalRows: 3 },
      ],
      total: { jobs: 3, totalRows: 10, freshRecords: 10, successRecords: 10, chargedMicros: 100 },
    })
  })

  it('adds up verdicts of jobs that know theirs', async () => {
    const { usage } = await usageOf([
      jobOf(1, { rows: 5, verdicts: { 'valid deliverable': 3, 'unknown timeout': 2 } }),
      jobOf(2, { rows: 4, verdicts: { 'valid catch_all': 1, 'risky catch_all': 3 } }),
      jobOf(3, { rows: 8, service: 'whatsapp', verdicts: { 'invalid not_registered': 8 } }),
      jobOf(4, { rows: 9, verdicts: {} }),
    ], { groupBy: ['service'] })
    expect(usage).toMatchObject({
      groups: [
        { totalRows: 18, verdicts: { valid: 4, invalid: 0, risky: 3, unknown: 2 } },
        { totalRows: 8, verdicts: { valid: 0, invalid: 8, risky: 0, unknown: 0 } },
      ],
      total: { verdicts: { valid: 4, invalid: 8, risky: 3, unknown: 2 } },
    })
  })

  it('is the same with forged, repeated and superseded records', async () => {
    const first = jobOf(1)
    const last = jobOf(1, { endedAtMs: first.endedAtMs + 1, chargedMicros: 7 })
    const jobs = [jobOf(2), jobOf(3)]
    const { usage } = await usageOf([...jobs, last])
    const disturbed = await usageOf([first, last, first, ...jobs, ...jobs], {}, [
      jobOf(1, { chargedMicros: 1_000 }), jobOf(2, { rows: 99 }), jobOf(8), jobOf(9),
    ])
    expect(disturbed.usage).toEqual(usage)
    expect(usage).toMatchObject({ total: { jobs: 3, chargedMicros: 67 } })
  })

  it('counts jobs by their creation, whatever the time in their id', async () => {
    const { usage, queries } = await usageOf([
      jobOf(1, { createdAtMs: FROM - 1 }), jobOf(2, { createdAtMs: FROM }),
      jobOf(3, { createdAtMs: TO - 1 }), jobOf(4, { createdAtMs: TO }),
    ])
    expect(usage).toMatchObject({ total: { jobs: 2 } })
    const { first, last } = queries[0]?.parameters as Record<string, string>
    // A minute of tolerance between the time of an id and that of its job.
    expect([first, last].map(id => decodeTime(`${id?.slice(4).toUpperCase()}0000000000000000`)))
      .toEqual([FROM - 60_000, TO + 60_000])
  })

  it('of more jobs than a request may read is refused', async () => {
    const { usage } = await usageOf([jobOf(1), jobOf(2), jobOf(3)], { maxJobs: 2 })
    expect(usage).toEqual({ kind: 'too_many', maxJobs: 2 })
    expect((await usageOf([jobOf(1), jobOf(2)], { maxJobs: 2 })).usage.kind).toBe('usage')
  })
})
