import type { ClickHouseClient } from '@clickhouse/client'
import { headerKeyOf } from '../../../services/jobs/job-key-parts.ts'
import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import type { FoundResults } from '../../../services/ingest/find-job.ts'
import { createOpenJobs, createQueries } from '../../../services/ingest/queries.ts'
import { JobKeyLostError } from '../../../services/jobs/job-keys.ts'
import { sealHeader } from '../../../services/jobs/rows-seal.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createCodec, localSource } from '../../../services/runtime/kafka/registry.ts'
import { closedJob, JOB_ID, jobOf, MANIFEST } from './doubles.ts'
import { packManifest } from '../../../services/jobs/results/archive.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { recordMacOf, storedJob } from '../../support/keys/signed.ts'
import { rowsAnswer } from '../../support/clickhouse/stored.ts'

const KEY = Buffer.alloc(32, 3)
const owner = { tenant: 'org_01.live', job: JOB_ID }
const sent = { metadata: { team: 'blue' }, webhookUrl: 'https://hooks.example.com/in' }

/** A reader over these rows of ClickHouse, and over keys that know one job's or none, or fail. */
function readerOf (rows: readonly object[], key?: Buffer | Error, ended?: FoundResults) {
  const calls: unknown[] = []
  const query = async ({ query, query_params: parameters }: {
    readonly query: string, readonly query_params: unknown
  }) => {
    calls.push(parameters)
    return rowsAnswer(rows.map(row =>
      query.includes('AS manifest') ? row : { ...row, manifest: undefined }))
  }
  const reader = createQueries({
    clickhouse: { query } as unknown as ClickHouseClient,
    recordMac: recordMacOf(),
    codec: createCodec(localSource()),
    keys: {
      get: async () => {
        if (key instanceof Error) throw key
        return key
      },
    },
    state: {} as Redis,
    clock: { now: () => 0, stop: () => {} },
    webhookKeys: organizationKeysOf(1),
    store: {
      openJobs: async () => [], read: async () => undefined, readWithManifest: async () => ended,
    },
  })
  return { reader, calls }
}

describe('a closed job', () => {
  it('is read from the archive with its manifest', async () => {
    const job = closedJob({ closed: false, header: Buffer.from('sealed') })
    const { reader, calls } = readerOf([storedJob(job, MANIFEST)])
    expect(await reader.findArchived('org_01.live', JOB_ID)).toEqual({
      job: closedJob({ header: Buffer.from('sealed') }), manifest: MANIFEST,
    })
    expect(calls).toEqual([owner])
  })

  it('has its results from its record, and from the archive once that has expired', async () => {
    const stored = [storedJob(closedJob(), MANIFEST)]
    const find = async (ended?: FoundResults) => {
      const { reader, calls } = readerOf(stored, undefined, ended)
      return [await reader.findResults('org_01.live', JOB_ID), calls.length]
    }
    const archived = { job: closedJob(), manifest: MANIFEST }
    const ended = { job: jobOf({ ended: true }), manifest: MANIFEST }
    expect(await find(ended)).toEqual([ended, 0])
    expect(await find()).toEqual([archived, 1])
    expect(await find({ job: jobOf(), manifest: [] })).toEqual([archived, 1])
    // A record that was rebuilt after a loss of Redis.
    expect(await find({ job: jobOf({ ended: true }), manifest: [] })).toEqual([archived, 1])
  })

  it('is not read from a record of another hand, another place or another manifest', async () => {
    const stored = storedJob(closedJob(), MANIFEST)
    const other = storedJob(closedJob({ tenant: 'org_02.live' }), MANIFEST)
    for (const forged of [
      { ...stored, mac: '' },
      { ...stored, record: stored.record.replace('"completed"', '"failed"') },
      { ...stored, header: Buffer.from('other').toString('base64') },
      { ...stored, manifest: packManifest([]).toString('base64') },
      // What an INSERT could contain to read the results of another customer.
      { ...other, tenant: stored.tenant },
      { ...stored, record: other.record },
    ]) {
      const { reader } = readerOf([forged])
      await expect(reader.findArchived('org_01.live', JOB_ID)).rejects
        .toThrow(`job ${JOB_ID} has no record with a valid MAC in ClickHouse`)
      expect(await reader.listArchived('org_01.live', { limit: 5 })).toEqual(
        forged.manifest === stored.manifest ? [] : [closedJob()])
      const both = readerOf([forged, stored])
      expect(await both.reader.findArchived('org_01.live', JOB_ID))
        .toEqual({ job: closedJob(), manifest: MANIFEST })
    }
  })

  it('has no file when its key is gone, rather than half a one', async () => {
    const { reader } = readerOf([{ digest: MANIFEST[0]?.digest }])
    const pieces = reader.csvStream(closedJob(), MANIFEST, { safe: false })
    const first = pieces[Symbol.asyncIterator]().next()
    await expect(first).rejects.toThrow(`the data key of job ${JOB_ID} is lost`)
  })
})

describe('what was sealed with a job', () => {
  it('is opened by the key of the job', async () => {
    const header = sealHeader(headerKeyOf(KEY), owner, sent)
    const { reader } = readerOf([], KEY)
    expect(await reader.openHeader(closedJob({ header }))).toEqual(sent)
  })

  it('is gone for a job that was erased', async () => {
    const header = sealHeader(headerKeyOf(KEY), owner, sent)
    const { reader } = readerOf([])
    expect(await reader.openHeader(closedJob({ header }))).toEqual({ metadata: {}, webhookUrl: '' })
  })

  it('is gone with the key of a running job, and only away with its stores', async () => {
    const header = sealHeader(headerKeyOf(KEY), owner, sent)
    const failing = (error: Error) => readerOf([], error).reader.openHeader(closedJob({ header }))
    expect(await failing(new JobKeyLostError('gone'))).toEqual({ metadata: {}, webhookUrl: '' })
    await expect(failing(new InfrastructureError('away'))).rejects.toThrow('away')
  })
})

it('open jobs are read by their ids, but for those that ended in between', async () => {
  const ids = Array.from({ length: 250 }, (_, at) => `job_${at}`)
  let reading = 0
  let most = 0
  const openJobs = createOpenJobs({
    openJobs: async () => ids.map(job => ({ job, sinceMs: 0 })),
    read: async (_tenant, id) => {
      most = Math.max(most, ++reading)
      await Promise.resolve()
      reading--
      return id === 'job_7' ? undefined : jobOf({ id })
    },
  })
  const found = await openJobs('org_01.live')
  expect(found.map(({ id }) => id)).toEqual(ids.filter(id => id !== 'job_7'))
  expect(most).toBe(100)
})
