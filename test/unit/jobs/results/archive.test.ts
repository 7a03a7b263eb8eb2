import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createArchive } from '../../../../services/jobs/results/archive.ts'
import type { Job } from '../../../../services/jobs/job.ts'
import { endedJob } from '../../../support/clickhouse/results.ts'
import { recordMacOf, storedJob } from '../../../support/keys/signed.ts'
import { TENANT } from '../../../support/stage-messages.ts'
import { createClickhouseDouble } from '../../../support/clickhouse/stored.ts'

/** An archive over ClickHouse with these responses. */
function archiveOn (...answers: readonly (readonly object[])[]) {
  const double = createClickhouseDouble(...answers)
  return { ...double, archive: createArchive(double.clickhouse, recordMacOf()) }
}

const jobOf = (number: number, change: Partial<Job> = {}) =>
  endedJob({ id: `job_${number}`, closed: true, ...change })
const rowOf = (job: Job) => storedJob(job, [])
const forgedOf = (job: Job) => ({ ...rowOf(job), mac: '' })

describe('the archive', () => {
  const first = jobOf(1)
  const again = jobOf(1, { endedAtMs: first.endedAtMs + 1, chargedMicros: 7 })

  it('takes of several true records of a job the one of the latest end', async () => {
    for (const jobs of [[first, again, first], [again, first, again]]) {
      const rows = jobs.map(rowOf)
      const { archive } = archiveOn(rows, rows, rows)
      expect(await archive.find(TENANT, 'job_1')).toEqual({ job: again, manifest: [] })
      expect(await archive.findAll([TENANT], ['job_1'])).toEqual(new Map([['job_1', again]]))
      expect(await archive.list(TENANT, { limit: 5 })).toEqual([again])
    }
  })

  it('gives back the manifest of a job as it was saved', async () => {
    const entry = fc.record({
      chunk: fc.nat(1_000),
      digest: fc.stringMatching(/^[0-9a-f]{64}$/),
      won: fc.uint8Array({ maxLength: 125 }).map(bytes => Buffer.from(bytes)),
      firstRow: fc.nat(100_000),
      inputs: fc.boolean(),
    })
    await fc.assert(fc.asyncProperty(fc.array(entry), async manifest => {
      const { archive } = archiveOn([storedJob(first, manifest)])
      expect(await archive.find(TENANT, 'job_1')).toEqual({ job: first, manifest })
    }))
  })

  it('finds the true record behind any number of forged ones, and says if all are', async () => {
    const forged = Array<object>(1_000).fill(forgedOf(first))
    const { archive } = archiveOn([...forged, rowOf(first)], forged, [])
    expect(await archive.find(TENANT, 'job_1')).toEqual({ job: first, manifest: [] })
    await expect(archive.find(TENANT, 'job_1')).rejects
      .toThrow('job job_1 has no record with a valid MAC in ClickHouse')
    expect(await archive.find(TENANT, 'job_1')).toBeUndefined()
  })

  // What an INSERT could contain to show another outcome, or the results of another customer.
  const stored = rowOf(first)
  const other = rowOf(jobOf(1, { tenant: 'org_2.live' }))
  it.each<[what: string, forged: object]>([
    ['another status', { record: stored.record.replace('"completed"', '"failed"') }],
    ['another header', { header: Buffer.from('other').toString('base64') }],
    ['another manifest', {
      manifest: storedJob(first, [
        { chunk: 0, digest: 'ab'.repeat(32), won: Buffer.of(1), firstRow: 0, inputs: true },
      ]).manifest,
    }],
    ['the row of another tenant', { ...other, tenant: stored.tenant }],
    ['the record of another tenant', { record: other.record }],
  ])('reads no row with %s', async (_what, change) => {
    const forged = { ...stored, ...change }
    const { archive } = archiveOn([forged], [forged, stored])
    await expect(archive.find(TENANT, 'job_1')).rejects.toThrow('no record with a valid MAC')
    expect(await archive.find(TENANT, 'job_1')).toEqual({ job: first, manifest: [] })
  })

  it('asks for more rows while forged ones and copies leave a page short', async () => {
    const [older, old, young] = [jobOf(2), jobOf(3), jobOf(4)]
    const rows = [
      forgedOf(jobOf(9)), rowOf(young), rowOf(young), forgedOf(young), rowOf(old), rowOf(older),
    ]
    const { archive, queries } = archiveOn(rows.slice(0, 3), rows, [rowOf(older)])
    expect(await archive.list(TENANT, { limit: 2 })).toEqual([young, old])
    expect(await archive.list(TENANT, { limit: 2 })).toEqual([older])
    expect(queries.map(one => one.parameters['maxRows'])).toEqual([3, 48, 3])
  })

  it('lists a job under the status and service of its record alone', async () => {
    const rows = [rowOf(first)]
    const { archive } = archiveOn(rows, rows, rows)
    expect(await archive.list(TENANT, { limit: 5, status: 'failed' })).toEqual([])
    expect(await archive.list(TENANT, { limit: 5, service: 'telegram' })).toEqual([])
    const { status, service } = first
    expect(await archive.list(TENANT, { limit: 5, status, service })).toEqual([first])
  })

  it('names inserts by MACs, so that no other writer can have one dropped', async () => {
    const { archive, inserted, tokens } = archiveOn()
    for (const jobs of [[first], [first], [again]]) {
      await archive.save(jobs.map(job => ({ job, manifest: [] })))
    }
    expect(tokens[1]).toBe(tokens[0])
    expect(tokens[2]).not.toBe(tokens[0])
    const digest = createHash('sha256').update(String(inserted[0]?.['mac'])).digest('hex')
    expect(tokens[0]).toBe(digest)
  })
})
