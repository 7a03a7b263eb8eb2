import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { newJobId } from '../../services/jobs/job.ts'
import { toIdempotencyKeys } from '../../services/jobs/job-record.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { bindingOf, jobClaim, moveEnd } from '../support/jobs.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const DAY_MS = 86_400_000
const TENANT = 'org_a.live'
const HASHES = toIdempotencyKeys(TENANT)
const FINGERPRINT = '0123456789abcdef'.repeat(2)
const LUA = readFileSync(new URL('../../services/jobs/idempotency.lua', import.meta.url), 'utf8')

/** `bind`, `rebind` and `release` at a time; the job that the key is bound to before, or ''. */
const STEP = `${LUA}
local step, key, job, at = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if step == 'release' then
  release(KEYS, key, job, at)
  return ''
end
local found = bind(KEYS, key, request_of(job, '${FINGERPRINT}'), at)
if found and step == 'rebind' then
  rebind(KEYS, key, request_of(job, '${FINGERPRINT}'), at)
end
return found and bound_job(found) or ''`

type Step = {
  readonly step: 'bind' | 'rebind' | 'release'
  readonly key: string
  readonly job: string
}

/** What Redis does by itself when the time has come. */
async function expireHashes (atMs: number): Promise<void> {
  for (const hash of HASHES) {
    const endsMs = await redis.pexpiretime(hash)
    if (endsMs !== -2 && endsMs <= atMs) await redis.del(hash)
  }
}

const steps = fc.array(fc.record({
  step: fc.constantFrom('bind' as const, 'bind' as const, 'rebind' as const, 'release' as const),
  key: fc.constantFrom('a', 'b', 'c'),
  job: fc.constantFrom('job_1', 'job_2', 'job_3'),
  // The clock of a server that takes over may be behind.
  laterMs: fc.oneof(
    fc.integer({ min: -1_000, max: 1_000 }), fc.integer({ min: 0, max: 2 * DAY_MS })),
}), { maxLength: 30 })

it('a key is bound for 24 hours, at midnight too and if the clock steps back', async () => {
  const midnight = (Math.floor(Date.now() / DAY_MS) + 1) * DAY_MS
  await fc.assert(fc.asyncProperty(steps, async all => {
    await redis.flushall()
    const bound = new Map<string, { readonly job: string, readonly endsAtMs: number }>()
    let atMs = midnight
    for (const { laterMs, ...each } of all) {
      atMs += laterMs
      await expireHashes(atMs)
      await follow(bound, each, atMs)
    }
  }), { numRuns: 60 })
}, 60_000)

async function follow (
  bound: Map<string, { readonly job: string, readonly endsAtMs: number }>,
  { step, key, job }: Step, atMs: number
): Promise<void> {
  const known = bound.get(key)
  const held = known !== undefined && atMs < known.endsAtMs ? known : undefined
  const answer = await redis.eval(STEP, 2, ...HASHES, step, key, job, String(atMs))
  if (step === 'release') {
    if (held?.job === job) bound.delete(key)
    return
  }
  expect(answer).toBe(held?.job ?? '')
  if (held === undefined || step === 'rebind') bound.set(key, { job, endsAtMs: atMs + DAY_MS })
  for (const hash of HASHES) {
    const livesUntilMs = await redis.pexpiretime(hash)
    const ends = (await redis.hvalsBuffer(hash)).map(value => value.readUIntBE(0, 6))
    expect(livesUntilMs).toBeGreaterThanOrEqual(Math.max(...ends, -2))
  }
}

it('a binding of a new day does not expire with the hash of two days ago', async () => {
  await redis.flushall()
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const bindAt = (key: string, atMs: number) =>
    redis.eval(STEP, 2, ...HASHES, 'bind', key, 'job_1', String(atMs))
  await bindAt('a', today)
  // Redis still has that hash when a script reads the time just after midnight.
  await bindAt('b', today + 2 * DAY_MS)
  const [name] = await redis.keys('idem:*')
  expect(await redis.hlen(name ?? '')).toBe(2)
  expect(await redis.pexpiretime(name ?? '')).toBe(today + 4 * DAY_MS)
})

it('an ended binding is free, and a job that was claimed by it keeps its outcome', async () => {
  await redis.flushall()
  await redis.script('FLUSH')
  const store = createJobStore(redis)
  const claim = (job: string) => store.claim(TENANT,
    jobClaim(job, { idempotencyKey: 'key', fingerprint: FINGERPRINT }))
  expect((await claim('job_1')).kind).toBe('new')
  const binding = await bindingOf(redis, TENANT, 'key')
  expect(binding).toMatchObject({ job: 'job_1', fingerprint: FINGERPRINT })
  await moveEnd(redis, { ...binding!, key: 'key', endsAtMs: Date.now() })
  expect((await claim('job_2')).kind).toBe('new')
  expect((await bindingOf(redis, TENANT, 'key'))?.job).toBe('job_2')
  await store.refuse(TENANT, 'job_1', 'internal')
  expect((await bindingOf(redis, TENANT, 'key'))?.job).toBe('job_2')
})

it('costs at most 150 bytes, among many of its tenant', async () => {
  await redis.flushall()
  const bytes = async () => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
  const jobs = 20_000
  const before = await bytes()
  const pipeline = redis.pipeline()
  for (let n = 0; n < jobs; n += 1) {
    const key = crypto.randomUUID()
    pipeline.eval(STEP, 2, ...HASHES, 'bind', key, newJobId(Date.now()), String(Date.now()))
  }
  await pipeline.exec()
  expect((await bytes() - before) / jobs).toBeLessThan(150)
})
