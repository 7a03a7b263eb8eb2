import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type JobBody, ROW_COUNTERS } from '../../schemas/api/job.ts'
import type { TallyBlock } from '../../services/jobs/job.ts'
import { jobBody } from '../../services/jobs/job-view.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { countBits, indexes } from '../../services/runtime/platform/bitmap.ts'
import { accepted } from '../support/jobs.ts'
import {
  countsOf, deadOf, layOut, randomJob, requestOf, type Row, verdictOf,
} from '../support/recovery/random-jobs.ts'
import { startJobStore } from '../support/redis/redis.ts'

const { redis, store, fundedTenant } = await startJobStore()
const header = { metadata: {}, webhookUrl: '' }

/** What happens between the deliveries of blocks: position, and step. */
const steps = fc.array(fc.tuple(
  // The first block changes the status, so half of the steps come before it.
  fc.oneof(fc.constant(0), fc.nat({ max: 36 })),
  fc.constantFrom('announce', 'cancel', 'fail', 'lose', 'recount' as const)
), { maxLength: 4 })
const stories = fc.record({
  given: randomJob,
  steps,
  dead: fc.oneof(fc.constant([]), fc.array(fc.boolean(), { minLength: 36, maxLength: 36 })),
})

/** The only job of a tenant, with what its result file has. */
class Story {
  readonly tenant: string
  readonly #rows: readonly Row[]
  /** By row, whether the block that finished it first has its result, or replaces a lost one. */
  readonly #ends: ('own' | 'lost' | undefined)[] = []
  readonly #delivered: TallyBlock[] = []
  /** Without its key the file cannot be read. */
  isUnreadable = false

  constructor (tenant: string, rows: readonly Row[]) {
    this.tenant = tenant
    this.#rows = rows
  }

  async accept (): Promise<void> {
    await accepted(store, this.tenant, requestOf(this.#rows))
  }

  async tally (block: TallyBlock, { recount = false } = {}): Promise<void> {
    const before = await store.read(this.tenant, 'job_1')
    await store.tally(this.tenant, block, { recount })
    if (!recount) this.#delivered.push(block)
    if (before!.ended) return
    const end = block.replacesLost ? 'lost' : 'own'
    for (const row of indexes(block.finished)) this.#ends[block.firstRow + row] ??= end
  }

  async take (step: 'announce' | 'cancel' | 'fail' | 'lose' | 'recount'): Promise<void> {
    const { tenant } = this
    if (step === 'announce') await store.announce(tenant, 'job_1')
    else if (step === 'cancel') await store.cancel(tenant, 'job_1')
    else if (step === 'recount') await this.#recount()
    else {
      const finished = await store.unfinishedRows(tenant, 'job_1')
      if (finished === undefined) return
      const digest = step === 'lose' ? '' : 'f'.repeat(64)
      await store.fail(tenant, 'job_1', { digest, finished })
      for (const row of indexes(finished)) this.#ends[row] ??= 'lost'
      this.isUnreadable = step === 'lose'
    }
  }

  /** Redis lost a running job: it is made again, and its blocks are counted again. */
  async #recount (): Promise<void> {
    if ((await store.read(this.tenant, 'job_1'))!.ended) return
    await redis.del(jobRedisKeys(this.tenant, 'job_1').job)
    await this.accept()
    for (const block of this.#delivered) await this.tally(block, { recount: true })
  }

  get hasLostDuplicates (): boolean {
    return this.#rows.some(({ end }, row) => end === 'duplicate' && this.#ends[row] === 'lost')
  }

  /** A job that has lost its key loses all of them. */
  get hasLostRows (): boolean {
    return this.isUnreadable || this.#ends.includes('lost')
  }

  /** Status and reason of each row of the file. */
  get file (): readonly (readonly [string, string])[] {
    return this.#rows.map((row, index) => {
      const original = row.original === undefined || this.#ends[index] === 'lost'
        ? index
        : this.#rows.indexOf(row.original)
      const { end } = this.#rows[original]!
      const isLost = this.#ends[original] === 'lost' || end === 'duplicate'
      return isLost ? ['unknown', 'internal'] as const : verdictOf(end, original)
    })
  }
}

/** How often each text occurs. */
function tallyTexts (texts: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries([...Map.groupBy(texts, text => text)]
    .map(([text, { length }]) => [text, length]))
}

const sum = (counts: Readonly<Record<string, number>>) =>
  Object.values(counts).reduce((total, count) => total + count, 0)

/** Verdicts are those of the file at the end, and only grow until then. */
function checkVerdicts (story: Story, bodies: readonly JobBody[]): void {
  const { verdicts, reasons } = bodies.at(-1)!
  if (story.hasLostDuplicates) {
    expect([verdicts, reasons]).toEqual([null, null])
    return
  }
  const { file } = story
  const none = { valid: 0, invalid: 0, risky: 0, unknown: 0 }
  expect(verdicts).toEqual({ ...none, ...tallyTexts(file.map(([status]) => status)) })
  expect(reasons).toEqual(tallyTexts(file.map(([, reason]) => reason)))
  for (const body of bodies) {
    for (const [status, rows] of Object.entries(body.verdicts!)) {
      expect(rows).toBeLessThanOrEqual(verdicts![status as keyof typeof none])
    }
    for (const [reason, rows] of Object.entries(body.reasons!)) {
      expect(rows).toBeLessThanOrEqual(reasons![reason] ?? 0)
    }
  }
}

/** The body of the job, whose counters add up to its rows. */
async function check ({ tenant }: Story): Promise<JobBody> {
  const job = await store.read(tenant, 'job_1')
  const body = jobBody(job!, header)
  const counters = ROW_COUNTERS.map(name => body[name])
  expect(Math.min(...counters)).toBeGreaterThanOrEqual(0)
  expect(counters.reduce((sum, one) => sum + one, 0)).toBe(body.totalRows)
  if (body.verdicts !== null) {
    expect(sum(body.verdicts)).toBe(body.successRecords + body.failedRecords)
    expect(sum(body.reasons!)).toBe(sum(body.verdicts))
  }
  if (!job!.ended) return body
  expect(body.pendingRecords).toBe(0)
  expect(body.successRecords + body.failedRecords).toBe(body.totalRows)
  expect(body.successRecords).toBeGreaterThanOrEqual(body.cacheHits + body.freshRecords)
  expect(body.successRecords)
    .toBeLessThanOrEqual(body.cacheHits + body.freshRecords + body.duplicateRecords)
  return body
}

it('the counters of a job add up to its rows in every state, and equal its file', async () => {
  const statuses = new Set<string>()
  const known = new Set<string>()
  await fc.assert(fc.asyncProperty(stories, async ({ given, steps, dead }) => {
    const tenant = await fundedTenant(1_000_000_000)
    const { rows, deliveries } = layOut(given)
    const story = new Story(tenant, rows)
    await story.accept()
    const bodies = [await check(story)]
    for (const [number, block] of deliveries.entries()) {
      for (const [at, step] of steps) {
        if (at !== number) continue
        await story.take(step)
        bodies.push(await check(story))
      }
      await story.tally(dead[number] === true ? deadOf(block, number) : block)
      bodies.push(await check(story))
    }
    const { finishedRows: _, inputBlocks: _i, ...counts } = countsOf(rows)
    if (!story.hasLostRows) expect(bodies.at(-1)).toMatchObject(counts)
    if (!story.isUnreadable) checkVerdicts(story, bodies)
    for (const { status } of bodies) statuses.add(status)
    known.add(`${story.hasLostRows} ${bodies.at(-1)!.verdicts !== null}`)
    const { job, manifest } = (await store.readWithManifest(tenant, 'job_1'))!
    expect(job.chargedMicros)
      .toBe(story.isUnreadable ? 0 : job.counts.freshRecords * job.unitPriceMicros)
    const won = manifest.reduce((sum, block) => sum + countBits(block.won), 0)
    if (!story.isUnreadable) expect(won).toBe(rows.length)
    await store.close(tenant, 'job_1')
    await check(story)
  }), { numRuns: 300 })
  expect([...statuses].toSorted()).toEqual([
    'cancelled', 'cancelling', 'completed', 'failed', 'preparing', 'queued', 'verifying',
  ])
  expect([...known].toSorted()).toEqual(['false true', 'true false', 'true true'])
})
