import { describe, expect, it } from 'vitest'
import {
  finishJob, settledOf, type Finishing,
} from '../../../../services/jobs/results/finish-job.ts'
import { endedJob } from '../../../support/clickhouse/results.ts'
import { entryOf, JOB, QUOTED_AT_MS, TENANT } from '../../../support/stage-doubles.ts'

function doubles (stored = endedJob(), storedDigests = ['d'], attached = '') {
  const done: string[] = []
  const manifest = [{ chunk: 0, digest: 'd', won: Buffer.from([1]), firstRow: 0, inputs: true }]
  const parts = {
    archive: {
      save: async (saved: readonly object[]) => {
        expect(saved).toMatchObject([{ manifest }])
        done.push('save')
      }
    },
    blocks: {
      digests: async () => new Set(storedDigests),
      insertAttached: async (_tenant: string, _job: string, attached: string) =>
        attached === '' ? [] : [attached],
    },
    store: {
      readWithManifest: async () => {
        done.push('read')
        return { job: stored, manifest, attached }
      },
      close: async (_tenant: string, _job: string, seq?: number) => {
        done.push(`close ${seq}`)
        return true
      },
    },
  }
  return { parts, done }
}

async function finished (...given: Parameters<typeof finishJob>): Promise<Finishing> {
  const finishing = await finishJob(...given)
  if (finishing === undefined) throw new Error('the job is closed, or its blocks are not stored')
  return finishing
}

describe('finishJob', () => {
  it('archives, returns what must be emitted, and closes only on request', async () => {
    const { parts, done } = doubles()
    const job = endedJob()
    const entry = entryOf(TENANT, job)
    const { emits, close } = await finished(parts, { job, entry })
    expect(done).toEqual(['read', 'save'])
    expect(emits).toEqual([
      { topic: 'jobs.settled', lane: 'small', value: settledOf(job), rows: undefined },
      { topic: 'wallet.journal', lane: 'small', value: entry, rows: undefined },
    ])
    await close()
    expect(done.slice(2)).toEqual(['close 7'])
  })

  it('leaves the outbox alone when another process has shipped the entry', async () => {
    const { parts, done } = doubles()
    const { emits, close } = await finished(parts, { job: endedJob(), entry: undefined })
    await close()
    expect(emits.map(({ topic }) => topic)).toEqual(['jobs.settled'])
    expect(done).toEqual(['read', 'save', 'close undefined'])
  })

  it('does nothing to a job that was closed meanwhile', async () => {
    const { parts, done } = doubles(endedJob({ closed: true }))
    expect(await finishJob(parts, { job: endedJob(), entry: undefined })).toBeUndefined()
    expect(done).toEqual(['read'])
  })

  it('stores the blocks that were kept with the job', async () => {
    const { parts, done } = doubles(endedJob(), [], 'd')
    await finished(parts, { job: endedJob(), entry: undefined })
    expect(done).toEqual(['read', 'save'])
    const other = doubles(endedJob(), [], 'another')
    expect(await finishJob(other.parts, { job: endedJob(), entry: undefined })).toBeUndefined()
  })

  it('leaves a job open whose blocks are counted and not stored', async () => {
    const { parts, done } = doubles(endedJob(), [])
    expect(await finishJob(parts, { job: endedJob(), entry: undefined })).toBeUndefined()
    expect(done).toEqual(['read'])
  })
})

describe('settledOf', () => {
  it('contains counts, amounts and times', () => {
    const job = endedJob({ chargedMicros: 7, releasedMicros: 3, header: Buffer.from('h') }, 9)
    expect(settledOf(job)).toMatchObject({
      tenant: TENANT,
      job: JOB,
      status: 'completed',
      totalRows: 9,
      maxQuoteMicros: 10,
      chargedMicros: 7,
      releasedMicros: 3,
      createdAt: QUOTED_AT_MS,
      endedAt: QUOTED_AT_MS + 5_000,
      header: Buffer.from('h'),
    })
    expect(settledOf(endedJob())).toMatchObject({ header: null, partner: '' })
    const feed = { partner: 'acme', partition: 1 }
    expect(settledOf(endedJob({ feed }))).toMatchObject({ partner: 'acme' })
  })
})
