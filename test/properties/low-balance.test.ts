import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWallet, createOutbox } from '../../services/money/wallet.ts'
import { acceptClaimed, acceptRequest, blockOf, upTo } from '../support/jobs.ts'
import { eventsCausedBy } from '../support/recovery/ledger-events.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const wallet = createWallet(redis)
const outbox = createOutbox(redis)
const store = createJobStore(redis)
const RUNS = 40
let tenants = 0
const THRESHOLD = 50_000

it('balance.low is caused once for each fall of the balance below the threshold', async () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('topUp' as const), micros: fc.integer({ min: 1, max: 60_000 }) }),
    fc.record({ do: fc.constant('accept' as const), price: fc.integer({ min: 0, max: 4_000 }) }),
    fc.record({ do: fc.constant('finish' as const), live: fc.integer({ min: 0, max: 10 }) })
  )
  await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 25 }), async steps => {
    const tenant = `org_low${++tenants}.live`
    const open: string[] = []
    const fallen: string[] = []
    for (const [number, one] of steps.entries()) {
      const job = `job_${number}`
      const { availableMicros: before } = await wallet.balance(tenant)
      if (one.do === 'topUp') {
        await wallet.topUp(tenant, { id: job, amountMicros: one.micros, reason: '' })
      } else if (one.do === 'accept') {
        const request = acceptRequest(job, {
          unitPriceMicros: one.price, maxActiveJobs: 100, lowBalanceMicros: THRESHOLD,
        })
        const { kind } = await acceptClaimed(store, tenant, request)
        if (kind === 'accepted') open.push(job)
      } else if (open.length > 0) {
        const ended = open.shift()!
        const rows = { live: upTo(one.live), unknown: upTo(10).slice(one.live) }
        await store.tally(tenant, blockOf({ job: ended, chunkRows: 10, inputs: true }, rows))
      }
      const { availableMicros: after } = await wallet.balance(tenant)
      if (before >= THRESHOLD && after < THRESHOLD) fallen.push(job)
    }
    const entries = await outbox.pending(tenant)
    const caused = await Promise.all(entries.map(entry => eventsCausedBy(entry, entry.at)))
    expect(caused.flat().map(({ value }) => [value.type, value.job]))
      .toEqual(fallen.map(job => ['balance.low', job]))
    // The event follows from the job alone, too, whenever it is sent.
    for (const { job } of entries.filter(({ type }) => type === 'reserve')) {
      const { lowBalance } = await store.read(tenant, job) ?? {}
      expect(lowBalance !== undefined).toBe(fallen.includes(job))
      const { availableMicros } = entries.find(it => it.entryId === `${job}:reserve`)!
      if (lowBalance) expect(lowBalance).toEqual({ thresholdMicros: THRESHOLD, availableMicros })
    }
  }), { numRuns: RUNS })
})
