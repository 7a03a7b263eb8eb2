import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createCursors } from '../../services/jobs/cursors.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { newJobId, type Submission, type Submitted } from '../../services/jobs/submit.ts'
import type { Consumption, ConsumeOptions } from '../../services/lib/bus.ts'
import { sleep } from '../../services/lib/retry.ts'
import { startPartnerFeed } from '../../services/feed/partner-feed.ts'
import { feedParts, fill, newPartner, partnerKey } from '../support/feeds.ts'
import { acceptRequest } from '../support/jobs.ts'
import { createMemoryBus } from '../support/memory-bus.ts'
import { startRedis } from '../support/redis.ts'

const { redis } = await startRedis()
const store = createJobStore(redis)
const cursors = createCursors(redis)

/** What becomes of one request: when it is decided, and whether its feed hears of it. */
type Fate = { readonly afterMs: number, readonly heard: boolean }
const fate: fc.Arbitrary<Fate> = fc.record({
  afterMs: fc.integer({ min: 0, max: 3 }), heard: fc.boolean(),
})
const plan = fc.record({
  seed: fc.nat(),
  services: fc.array(fc.constantFrom('whatsapp', 'telegram'), { minLength: 20, maxLength: 50 }),
  fates: fc.infiniteStream(fate),
  crashesAfterMs: fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 4 }),
  limit: fc.integer({ min: 1, max: 9 }),
})
type Plan = typeof plan extends fc.Arbitrary<infer P> ? P : never

/** Decides as `lookup` does, by the real script, whether or not the feed still lives to hear. */
function pipeline (fates: Iterator<Fate>, taken: number[]) {
  const pending: Promise<unknown>[] = []
  const decide = async (submission: Submission): Promise<Submitted> => {
    const { tenant, inputs, feed } = submission
    const id = newJobId(Date.now())
    const claim = { job: id, idempotencyKey: '', fingerprint: '', acceptWithinMs: 600_000 }
    await store.claim(tenant, claim)
    const request = acceptRequest(id, {
      freshChecks: inputs.length, maxActiveJobs: 1_000, feed: feed!.source,
    })
    const answer = await store.accept(tenant, request)
    if (answer.kind === 'refused') return answer
    taken.push(...feed!.offsets)
    return { ...answer, replayed: false, response: '' }
  }
  const submit = async (submission: Submission): Promise<Submitted> => {
    const { afterMs, heard } = fates.next().value as Fate
    const decided = sleep(afterMs).then(() => decide(submission))
    pending.push(decided.catch(() => {}))
    if (heard) return decided
    throw new Error('the answer was lost on its way')
  }
  return { submit, ended: () => Promise.all(pending) }
}

async function run ({ seed, services, fates, crashesAfterMs, limit }: Plan) {
  const bus = createMemoryBus({ seed, partitionsOf: () => 1, maxDelivery: 8 })
  const { partner, topic } = await newPartner(redis)
  await fill(bus, partner.name, services)
  const taken: number[] = []
  const submitter = pipeline(fates, taken)
  const start = () => {
    const members: Consumption[] = []
    const consume = async (options: ConsumeOptions) => {
      const member = await bus.consume(options)
      members.push(member)
      return member
    }
    const feed = startPartnerFeed(
      { partner, key: partnerKey }, feedParts(redis, { bus: { consume }, limit, submitter }))
    return { feed, crash: () => { for (const member of members) bus.crash(member) } }
  }
  for (const afterMs of crashesAfterMs) {
    const { feed, crash } = start()
    await sleep(afterMs)
    crash()
    // A dead process neither hears nor says anything more.
    await feed.stop()
  }
  const last = start()
  await expect.poll(() => bus.committed(`feed.${partner.name}`, topic, 0), { interval: 1 })
    .toBe(BigInt(services.length))
  await last.feed.stop()
  await submitter.ended()
  const { name, tenant } = partner
  const positions = await cursors.read({ tenant, partner: name, partition: 0 })
  return { taken, positions }
}

describe('the cursor of a feed', () => {
  it('gives every contact to one job, however often it is regrouped', async () => {
    await fc.assert(fc.asyncProperty(plan, async given => {
      const { taken, positions } = await run(given)
      const all = given.services.map((_, offset) => offset)
      expect(taken.toSorted((a, b) => a - b)).toEqual(all)
      for (const service of new Set(given.services)) {
        expect(positions.get(`${service}||`)).toBe(given.services.lastIndexOf(service))
      }
    }), { numRuns: 40 })
  })

  it('refuses a job from anywhere but where it stands, and reserves nothing', async () => {
    const { partner: { name, tenant }, reservedMicros } = await newPartner(redis)
    const feedOf = (from: number, to: number) =>
      ({ partner: name, partition: 3, cursor: 'whatsapp||', from, to, unitPriceMicros: null })
    const ask = async (from: number, to: number) => {
      const id = newJobId(Date.now())
      await store.claim(tenant, {
        job: id, idempotencyKey: '', fingerprint: '', acceptWithinMs: 600_000,
      })
      const request = acceptRequest(id, { feed: feedOf(from, to) })
      const answer = await store.accept(tenant, request)
      // Once decided, always so: the redelivered chunk of a job gets the answer it got before.
      expect((await store.accept(tenant, request)).kind).toBe(answer.kind)
      return answer.kind === 'accepted' ? answer.job.feed : answer.refusal.code
    }
    expect(await ask(0, 9)).toBe('cursor_moved')
    expect(await ask(-1, 9)).toEqual({ partner: name, partition: 3 })
    expect(await ask(-1, 12)).toBe('cursor_moved')
    expect(await ask(9, 10)).toEqual({ partner: name, partition: 3 })
    expect(await reservedMicros()).toBe(2 * 10 * 2_000)
    const positions = await cursors.read({ tenant, partner: name, partition: 3 })
    expect([...positions]).toEqual([['whatsapp||', 10]])
  })
})
