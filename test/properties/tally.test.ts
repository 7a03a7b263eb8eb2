import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CHUNK_ROWS } from '../../services/jobs/submit.ts'
import { has } from '../../services/runtime/platform/bitmap.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { jobBody } from '../../services/jobs/job-view.ts'
import type { Outcome } from '../../services/jobs/job.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { eventually } from '../support/eventually.ts'
import { acceptClaimed, accepted, acceptRequest, blockOf, jobClaim, upTo } from '../support/jobs.ts'
import { layOut, randomJob, requestOf, type End } from '../support/recovery/random-jobs.ts'
import { startJobStore } from '../support/redis/redis.ts'

const { redis, connect, store, wallet, fundedTenant: withMoney } = await startJobStore()
const fundedTenant = () => withMoney(1_000_000_000)

/** How many commands Redis carries out meanwhile, those inside of scripts as well. */
async function commandsOf (work: () => Promise<unknown>): Promise<number> {
  await redis.config('RESETSTAT')
  await work()
  const stats = await redis.info('commandstats')
  return [...stats.matchAll(/^cmdstat_(?!config)[^:]+:calls=(\d+)/gm)]
    .reduce((sum, [, each]) => sum + Number(each), 0)
}

const stepwise = fc.record({
  given: randomJob,
  steps: fc.array(fc.integer({ min: 1, max: 10 }), { minLength: 36, maxLength: 36 }),
})

describe('the counts of a job', () => {
  it('come with its manifest if one step counts all of its blocks', async () => {
    const whole = fc.record({ given: randomJob, isSplit: fc.boolean() })
    const seen = new Set<boolean>()
    await fc.assert(fc.asyncProperty(whole, async ({ given, isSplit }) => {
      const tenant = await fundedTenant()
      const { rows, deliveries } = layOut(given)
      await accepted(store, tenant, requestOf(rows))
      const [first, ...others] = deliveries
      const steps = isSplit ? [[first!], others] : [deliveries]
      const tallied = []
      for (const step of steps) tallied.push(...await store.tallyAll(tenant, step))
      const ended = tallied.find(one => one.kind === 'counted' && one.ended)
      const { manifest } = (await store.readWithManifest(tenant, 'job_1'))!
      const found = ended?.kind === 'counted' ? ended.manifest : undefined
      if (found !== undefined) expect(found).toEqual(manifest)
      seen.add(found !== undefined)
    }))
    expect(seen.size).toBe(2)
  })

  it('are the same whether its blocks are tallied one by one or several in a step', async () => {
    const stateOf = async (tenant: string) => {
      const { job, manifest } = (await store.readWithManifest(tenant, 'job_1'))!
      const { status, counts, chargedMicros, releasedMicros } = job
      const balance = await wallet.balance(tenant)
      return { status, counts, chargedMicros, releasedMicros, manifest, balance }
    }
    await fc.assert(fc.asyncProperty(stepwise, async ({ given, steps }) => {
      const [single, several] = [await fundedTenant(), await fundedTenant()]
      const { rows, deliveries } = layOut(given)
      for (const tenant of [single, several]) await accepted(store, tenant, requestOf(rows))
      for (let from = 0, step = 0; from < deliveries.length; from += steps[step++] ?? 1) {
        const some = deliveries.slice(from, from + (steps[step] ?? 1))
        for (const block of some) await store.tally(single, block)
        await store.tallyAll(several, some)
        expect(await stateOf(several)).toEqual(await stateOf(single))
      }
    }), { numRuns: 30 })
  })
})

it('the verdicts of a job are not known if a block of an older release counted', async () => {
  const whole = fc.record({ given: randomJob, old: fc.nat({ max: 5 }) })
  await fc.assert(fc.asyncProperty(whole, async ({ given, old }) => {
    const tenant = await fundedTenant()
    const { rows, deliveries } = layOut(given)
    await accepted(store, tenant, requestOf(rows))
    let isKnown = true
    for (const [number, block] of deliveries.entries()) {
      const before = (await store.read(tenant, 'job_1'))!
      await store.tally(tenant, number === old ? { ...block, verdicts: null } : block)
      const job = (await store.read(tenant, 'job_1'))!
      const wonOriginals = job.counts.finishedRows - before.counts.finishedRows -
        job.counts.duplicateRecords + before.counts.duplicateRecords
      if (number === old && wonOriginals > 0) isKnown = false
      const { verdicts, reasons } = jobBody(job, { metadata: {}, webhookUrl: '' })
      expect([verdicts !== null, reasons !== null]).toEqual([isKnown, isKnown])
    }
  }), { numRuns: 100 })
})

describe('a job with more live rows than are reserved for', () => {
  // Two decisions, between which the lists of the organization changed, refused different rows.
  const request = (invalidRows: number) => acceptRequest('job_1', { freshChecks: 1, invalidRows })
  const block = (chunkRows: number) =>
    blockOf({ job: 'job_1', chunkRows, inputs: true }, { live: [0, 1] })

  it('ends, charged its maximum', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, request(1))
    expect(await store.tally(tenant, block(2))).toMatchObject({
      kind: 'counted', ended: true, entry: { chargeMicros: 2_000, amountMicros: 2_000 },
    })
    expect(await store.read(tenant, 'job_1')).toMatchObject({
      status: 'completed', chargedMicros: 2_000, releasedMicros: 0, counts: { freshRecords: 2 },
    })
    expect(await wallet.balance(tenant)).toMatchObject({ reservedMicros: 0, chargedMicros: 2_000 })
  })

  it('ends so if it stalls as well', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, request(2))
    await store.tally(tenant, block(3))
    const finished = await store.unfinishedRows(tenant, 'job_1')
    await store.fail(tenant, 'job_1', { digest: 'f'.repeat(64), finished: finished! })
    expect(await store.read(tenant, 'job_1'))
      .toMatchObject({ status: 'failed', ended: true, chargedMicros: 2_000, releasedMicros: 0 })
  })
})

it('a job whose rows are unreadable ' +
  'ends free, its whole reserve released, whatever was charged before', async () => {
  const tenant = await fundedTenant()
  await accepted(store, tenant, acceptRequest('job_1', { freshChecks: 20 }))
  await store.tally(tenant, blockOf({ job: 'job_1', chunkRows: 20 }, { live: upTo(9) }))
  const open = await store.unfinishedRows(tenant, 'job_1')
  const lost = { digest: '', finished: open! }
  expect(await store.fail(tenant, 'job_1', lost)).toMatchObject({
    kind: 'counted', ended: true, entry: { type: 'void', chargeMicros: 0, amountMicros: 40_000 },
  })
  expect(await store.read(tenant, 'job_1')).toMatchObject({
    status: 'failed',
    chargedMicros: 0,
    releasedMicros: 40_000,
    counts: { successRecords: 0, failedRecords: 20, freshRecords: 0 },
  })
  expect((await store.readWithManifest(tenant, 'job_1'))!.manifest.length).toBe(1)
  expect(await wallet.balance(tenant)).toMatchObject({ reservedMicros: 0, chargedMicros: 0 })
  expect(await store.fail(tenant, 'job_1', lost)).toMatchObject({ kind: 'known', ended: true })
})

it('the inputs of a chunk ' +
  'are recorded although blank ones replaced them before, and counted once', async () => {
  const tenant = await fundedTenant()
  await accepted(store, tenant, acceptRequest('job_1', { freshChecks: 20, chunks: 2 }))
  const inputs = (label: string, rows: readonly number[]) =>
    blockOf({ job: 'job_1', chunkRows: 10, inputs: true, label }, { invalid: rows })
  await store.tally(tenant, { ...inputs('lost', upTo(9)), replacesLost: true })
  await store.tally(tenant, { ...inputs('lost again', []), replacesLost: true })
  await store.tally(tenant, inputs('come', []))
  await store.tally(tenant, inputs('come again', []))
  const { manifest } = (await store.readWithManifest(tenant, 'job_1'))!
  const noted = manifest.map(({ digest }) => digest)
  expect(noted.toSorted()).toEqual(
    [inputs('lost', upTo(9)), inputs('come', [])].map(({ digest }) => digest).toSorted())
  expect((await store.read(tenant, 'job_1'))!.counts.inputBlocks).toBe(1)
})

it('while the blocks of a job are counted again, ' +
  'rows that seem open are left to their own blocks', async () => {
  const tenant = await fundedTenant()
  await accepted(store, tenant, acceptRequest('job_1', { freshChecks: 20, chunks: 2 }))
  const { recounts } = moneyKeys(tenant)
  await redis.hset(recounts, 'job_1', 0)
  const place = { job: 'job_1', chunkRows: 10, inputs: true }
  const block = blockOf({ ...place, label: 'dead' }, { unknown: upTo(10) })
  const dead = { ...block, replacesLost: true }
  await expect(store.tally(tenant, dead)).rejects.toThrow('are being recounted')
  const rows = (await store.unfinishedRows(tenant, 'job_1'))!
  const lost = { digest: '', finished: rows }
  expect(await store.fail(tenant, 'job_1', lost)).toMatchObject({ kind: 'known', ended: false })
  await store.tally(tenant, blockOf(place, { live: upTo(4) }), { recount: true })
  await store.tally(tenant, dead, { recount: true })
  expect((await store.read(tenant, 'job_1'))!.counts)
    .toMatchObject({ finishedRows: 10, freshRecords: 4, successRecords: 4, failedRecords: 6 })
  await redis.hdel(recounts, 'job_1')
  const other = { ...dead, chunk: 1, firstRow: 10 }
  expect(await store.tally(tenant, other)).toMatchObject({ kind: 'counted', ended: true })
})

describe('blocks of a job', () => {
  it('assign each row to its first block, whatever later ones contain', async () => {
    const one = fc.constantFrom<End | 'none'>('none', 'live', 'unknown', 'cached', 'invalid')
    const block = fc.array(one, { minLength: 13, maxLength: 13 })
    const several = fc.array(block, { minLength: 1, maxLength: 8 })
    await fc.assert(fc.asyncProperty(several, async blocks => {
      const tenant = await fundedTenant()
      await accepted(store, tenant, acceptRequest('job_1', { freshChecks: 13 }))
      const expected = new Map<number, End>()
      for (const [number, kinds] of blocks.entries()) {
        const of = (wanted: End) => upTo(13).filter(row => kinds[row] === wanted)
        const rows = {
          live: of('live'), unknown: of('unknown'), cached: of('cached'), invalid: of('invalid'),
        }
        const block = blockOf({ job: 'job_1', chunkRows: 13, label: String(number) }, rows)
        await store.tally(tenant, block)
        const fresh = upTo(13).filter(row => kinds[row] !== 'none' && !expected.has(row))
        for (const row of fresh) expected.set(row, kinds[row] as End)
        const entry = (await store.readWithManifest(tenant, 'job_1'))!.manifest.find(({ digest }) =>
          digest === block.digest)
        expect(upTo(13).filter(row => entry !== undefined && has(entry.won, row))).toEqual(fresh)
      }
      const kinds = [...expected.values()]
      const of = (...wanted: End[]) => kinds.filter(each => wanted.includes(each)).length
      expect((await store.read(tenant, 'job_1'))!.counts).toEqual({
        finishedRows: kinds.length,
        inputBlocks: 0,
        cacheHits: of('cached'),
        freshRecords: of('live'),
        invalidRecords: of('invalid'),
        duplicateRecords: 0,
        unknownRecords: of('unknown'),
        cancelledRecords: 0,
        successRecords: of('live', 'cached'),
        failedRecords: of('unknown', 'invalid'),
      })
    }), { numRuns: 100 })
  })

  it('of a whole chunk take no more commands of Redis than those of a few rows', async () => {
    const tenant = await fundedTenant()
    const chunks = 50
    await accepted(store, tenant, acceptRequest(
      'job_1', { freshChecks: chunks * CHUNK_ROWS, chunks, unitPriceMicros: 1 }
    ))
    const tally = (chunk: number, rows: readonly number[]) => {
      const firstRow = chunk * CHUNK_ROWS
      const place = { job: 'job_1', chunkRows: CHUNK_ROWS, chunk, firstRow, inputs: true }
      return store.tally(tenant, blockOf(place, { live: rows }))
    }
    // The first block also notifies of the status.
    await tally(0, upTo(1))
    const few = await commandsOf(() => tally(0, upTo(3)))
    expect(few).toBeLessThan(30)
    for (const chunk of upTo(chunks).slice(1)) {
      expect(await commandsOf(() => tally(chunk, upTo(CHUNK_ROWS)))).toBe(few)
    }
    await tally(0, upTo(CHUNK_ROWS))
    expect((await store.read(tenant, 'job_1'))!.status).toBe('completed')
  })
})

describe('requests that race', () => {
  const request = (job: string) => jobClaim(job, { idempotencyKey: 'key', fingerprint: 'f' })

  it('with one key claim it once', async () => {
    const tenant = await fundedTenant()
    const stores = upTo(5).map(() => createJobStore(connect()))
    const claims = await Promise.all(upTo(100).map(number =>
      stores[number % 5]!.claim(tenant, request(`job_${number}`))))
    expect(claims.filter(claim => claim.kind === 'new')).toHaveLength(1)
    const winner = claims.findIndex(claim => claim.kind === 'new')
    const others = claims.filter(claim => claim.kind === 'same')
    expect(others).toHaveLength(99)
    expect(new Set(others.map(claim => claim.job))).toEqual(new Set([`job_${winner}`]))
  })

  it('take over an expired claim, and the old job can then never exist', async () => {
    const tenant = await fundedTenant()
    const old = await store.claim(tenant, { ...request('job_old'), acceptWithinMs: 1 })
    if (old.kind !== 'new') throw new Error(old.kind)
    await eventually(async () => {
      const next = await store.claim(tenant, { ...request('job_new'), fingerprint: 'other' })
      expect(next.kind).toBe('new')
    })
    expect(await Promise.all(['job_old', 'job_new'].map(job =>
      redis.exists(jobRedisKeys(tenant, job).dataKey)))).toEqual([0, 1])
    const late = acceptRequest(
      'job_old', { idempotencyKey: 'key', acceptByMs: old.acceptByMs + 60_000 }
    )
    expect(await acceptClaimed(store, tenant, late))
      .toEqual({ kind: 'refused', refusal: { code: 'expired' } })
    expect((await store.claim(tenant, request('job_third'))).kind).toBe('reused')
    const taken = acceptRequest('job_new', { idempotencyKey: 'key' })
    expect((await acceptClaimed(store, tenant, taken)).kind).toBe('accepted')
  })

  it('never accept after they were reported as expired', async () => {
    const rounds = upTo(40).map(async () => {
      const tenant = await fundedTenant()
      const job = `job_${randomBytes(4).toString('hex')}`
      const claim = await store.claim(tenant, { ...request(job), acceptWithinMs: 20 })
      if (claim.kind !== 'new') throw new Error(claim.kind)
      const later = () => delay(Math.random() * 40)
      const answers: string[] = []
      const note = (outcome: Pick<Outcome, 'kind'>) => answers.push(outcome.kind)
      await Promise.all(upTo(6).map(async number => {
        await later()
        const racing = acceptRequest(job, { idempotencyKey: 'key', acceptByMs: claim.acceptByMs })
        note(number % 2 === 0
          ? await store.refuse(tenant, job, 'expired')
          : await acceptClaimed(store, tenant, racing))
      }))
      const said = new Set(answers.filter(answer => answer !== 'open'))
      expect(said.size).toBeLessThanOrEqual(1)
      const final = await eventually(async () => {
        const outcome = await store.refuse(tenant, job, 'expired')
        expect(outcome.kind).not.toBe('open')
        return outcome
      })
      expect(said.size === 0 || said.has(final.kind)).toBe(true)
      const { reservedMicros } = await wallet.balance(tenant)
      expect(reservedMicros).toBe(final.kind === 'accepted' ? 20_000 : 0)
    })
    await Promise.all(rounds)
  })
})

it('scripts do nothing to a missing job', async () => {
  expect(await store.close('org_x.live', 'job_1')).toBe(false)
  await store.announce('org_x.live', 'job_1')
  expect(await redis.keys('*org_x*')).toEqual(['w:{org_x}.live'])
})
