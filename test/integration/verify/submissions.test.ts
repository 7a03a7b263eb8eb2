import { beforeEach, describe, expect, it } from 'vitest'
import type { VerificationBatch } from '../../../services/verify/batch.ts'
import { redisSubmissions } from '../../../services/verify/submissions.ts'
import { startLockedRedis } from '../../support/redis/redis.ts'
import { createManualClock, batchOf, JOB } from '../../support/stage-messages.ts'
import { MESSAGE_KEYS } from './start-verify.ts'

const { redis } = await startLockedRedis()
beforeEach(async () => { await redis.flushall() })
const clock = createManualClock()
const open = redisSubmissions(redis, { ...MESSAGE_KEYS, clock })

const terms = { provider: 107, pollMs: 15_000, deadlineMs: Date.UTC(2026, 7, 12) }
const PHONES = ['+12127365000', '+12127365001', '+12127365002']
const batchFrom = (change: Parameters<typeof batchOf>[1] = {}): VerificationBatch => {
  const { value, rows } = batchOf(PHONES, { service: 'whatsapp', ...change })
  return { value, rows: rows() }
}

describe('the submissions of a batch', () => {
  it('are found by rows in later attempts, in which the batch has fewer of them', async () => {
    const first = await open(batchFrom())
    const submission = await first.begin([1, 2], terms)
    await first.accept(submission, 'tsk_1')
    expect([0, 1, 2].map((row) => first.of(row)?.task)).toEqual([undefined, 'tsk_1', 'tsk_1'])
    const all = batchFrom()
    const rest = { ...all, rows: { ...all.rows, rows: all.rows.rows.slice(2) } }
    const later = await open(rest)
    expect(later.of(0)).toMatchObject({ ...terms, task: 'tsk_1' })
    clock.advance(1)
    await later.begin([0], { ...terms, provider: 108 })
    const last = await open(all)
    expect([0, 1, 2].map((row) => last.of(row)?.provider)).toEqual([undefined, 107, 108])
  })

  it('have a reference of batch, provider and rows, the same in every attempt', async () => {
    const referenceOf = async (
      more: object = {}, rows: readonly number[] = [0, 1], provider = 107
    ) => (await (await open(batchFrom(more))).begin(rows, { ...terms, provider })).reference
    const reference = await referenceOf()
    expect(await referenceOf({ attempt: 3 })).toBe(reference)
    const others = await Promise.all([
      referenceOf({ job: `${JOB}2` }), referenceOf({ chunk: 1 }), referenceOf({ batch: 1 }),
      referenceOf({}, [0]), referenceOf({}, [0, 1], 108),
    ])
    expect(new Set([reference, ...others]).size).toBe(6)
  })

  it('are sealed for their batch, and kept as long as it can be delivered again', async () => {
    const submissions = await open(batchFrom())
    await submissions.accept(await submissions.begin([0], terms), 'tsk_secret')
    const key = `submissions:{org_1}.live:${JOB}:0:0`
    expect(await redis.keys('*')).toEqual([key])
    expect(Math.ceil(await redis.pttl(key) / 86_400_000)).toBe(7)
    const stored = (await redis.hvals(key)).join()
    expect(['tsk_secret', '"task"', '107'].filter((text) => stored.includes(text))).toEqual([])
    await redis.copy(key, key.replace(':0:0', ':0:1'))
    await expect(open(batchFrom({ batch: 1 }))).rejects.toThrow('decryption failed')
  })

  it('stay readable when another key signs messages', async () => {
    const submissions = await open(batchFrom())
    await submissions.accept(await submissions.begin([0], terms), 'tsk_1')
    const newer = { ...MESSAGE_KEYS.MESSAGE_KEYS, 2: Buffer.alloc(32, 8).toString('base64') }
    const rotated = redisSubmissions(
      redis, { MESSAGE_KEYS: newer, MESSAGE_KEY_ACTIVE: '2', clock })
    expect((await rotated(batchFrom())).of(0)?.task).toBe('tsk_1')
  })
})
