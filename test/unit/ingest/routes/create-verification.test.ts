import { describe, expect, it } from 'vitest'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import type { Job, ManifestEntry } from '../../../../services/jobs/job.ts'
import {
  packInlineResults, unpackInlineResults,
} from '../../../../services/jobs/results/result-blocks.ts'
import { arrived, blockEmission, live } from '../../../support/clickhouse/results.ts'
import type { JobWait } from '../../../../services/jobs/job-waiter.ts'
import { listRowFields } from '../../../../services/jobs/results/columns.ts'
import {
  application, closedJob, good, jobOf, MANIFEST, NOW_MS, outage, settings, type Sent,
} from '../doubles.ts'

const cells = listRowFields('phone-validation').map(name =>
  ({ row: '1', input: '+12127365000', status: 'valid', confidence: '90' })[name] ?? '')
const two = { ...jobOf().preflight, totalRows: 2 }
const running = jobOf({ preflight: two })
const closed = closedJob({ preflight: two, chargedMicros: 2_000 })

/** An interface whose jobs have these states, in order, whenever a request waits for them. */
function verifying (states: readonly ReturnType<typeof jobOf>[], more: Partial<IngestDeps> = {}) {
  const waits: JobWait[] = []
  const pages: unknown[] = []
  const { post, calls } = application({
    submit: async submission => {
      calls.submissions.push(submission)
      return { kind: 'accepted', job: running, replayed: false }
    },
    waitForJob: async wait => {
      const state = states[waits.push(wait) - 1]
      if (state !== undefined && !wait.isDone(state)) return running
      return state
    },
    findResults: async () => ({ job: closed, manifest: MANIFEST }),
    rows: async function * (job, manifest, options) {
      pages.push([job, manifest, options])
      yield [cells, cells]
    },
    ...more,
  })
  const verify = (body: unknown, sent: Sent = {}) => post(body, { path: 'verifications', ...sent })
  return { post: verify, calls, waits, pages }
}

const ended = jobOf({ ...closed, closed: false })

describe('a verification', () => {
  it.each([
    ['before they are stored', ended],
    ['that a rebuild has ended again', closedJob({ preflight: two, endedAtMs: NOW_MS - 1_000 })],
  ])('does not read the rows of an ended job %s', async (_, job) => {
    const { post, pages } = verifying([job])
    expect([(await post(good)).statusCode, pages]).toEqual([202, []])
  })

  it('waits ten seconds unless it says otherwise', async () => {
    const { post, waits } = verifying([running, running])
    await post(good)
    await post({ ...good, wait: 25 })
    const [standard = 0, long = 0] = waits.map(({ timeoutMs }) => timeoutMs)
    expect([standard > 9_000, standard <= 10_000]).toEqual([true, true])
    expect([long > 24_000, long <= 25_000]).toEqual([true, true])
  })

  describe('with inline results', () => {
    const place = { chunk: 0, chunks: 1, firstRow: 0, rows: 2, totalRows: 2 }
    const inlining = async (
      manifestOf: (digest: string) => readonly ManifestEntry[], states: readonly Job[]
    ) => {
      const { value } = await arrived(blockEmission(place, [[0, live('a')], [1, live('b')]], {}))
      const text = packInlineResults([value])
      const [{ digest } = { digest: '' }] = unpackInlineResults(text)
      return verifying(states, {
        inlineResultsOf: () => text,
        findResults: async () => ({ job: ended, manifest: manifestOf(digest) }),
      })
    }
    const entry = (digest: string) => ({ ...MANIFEST[0]!, digest })

    it('reads them as soon as the job has ended', async () => {
      const { post, pages, waits } = await inlining(digest => [entry(digest)], [ended])
      expect((await post(good)).statusCode).toBe(200)
      expect(pages).toMatchObject([[ended, [{ chunk: 0 }], { inlineResults: [{ chunk: 0 }] }]])
      expect(waits.length).toBe(1)
    })

    it('waits until all are stored if some are missing', async () => {
      const manifestOf = (digest: string) => [entry(digest), entry('other')]
      const stored = await inlining(manifestOf, [ended, closed])
      expect((await stored.post(good)).statusCode).toBe(200)
      const late = await inlining(manifestOf, [ended])
      expect((await late.post(good)).statusCode).toBe(202)
      expect([stored.pages.length, late.pages.length]).toEqual([1, 0])
    })
  })

  it('is an accepted job even if infrastructure fails afterwards', async () => {
    for (const more of [
      { waitForJob: () => Promise.reject(outage) },
      { rows: () => { throw outage } },
      { findResults: async () => undefined },
    ]) {
      expect((await verifying([closed], more).post(good)).statusCode).toBe(202)
    }
  })

  it('needs the scopes to write and to read', async () => {
    for (const [key, missing] of [['reader', 'jobs:write'], ['writer', 'jobs:read']] as const) {
      const { post, calls } = verifying([closed])
      const answer = await post(good, { key })
      expect([answer.statusCode, answer.json().error.code]).toEqual([403, 'insufficient_scope'])
      expect(answer.json().error.message).toContain(missing)
      expect(calls.submissions).toEqual([])
    }
  })
})

describe('a repeated verification', () => {
  const replaying = (job = closed, more: Partial<IngestDeps> = {}) => verifying([closed], {
    submit: async () => ({ kind: 'accepted', job, replayed: true }), ...more,
  })

  it('of an erased job, or after the retention, has no rows', async () => {
    const old = closedJob({ endedAtMs: NOW_MS - settings.retentionMs })
    const erasure = { erasedAtMs: NOW_MS, completedAtMs: undefined }
    const erased = replaying(closed, { findErasures: async () => new Map([[closed.id, erasure]]) })
    for (const [{ post }, code] of [
      [replaying(old), 'results_expired'], [erased, 'results_erased'],
    ] as const) {
      const answer = await post(good)
      expect([answer.statusCode, answer.json().error.code]).toEqual([410, code])
    }
  })
})
