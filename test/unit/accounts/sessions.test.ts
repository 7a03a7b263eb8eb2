import { beforeEach, describe, expect, it } from 'vitest'
import {
  createNonces, createSessions, createSignInCodes, secretDigest, SIGN_IN_LINK_MS,
} from '../../../services/accounts/sessions.ts'
import { expectLifetime } from '../../support/lifetime.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

const HOUR_MS = 3_600_000
const subject = { kind: 'customer', orgId: 'org_1' } as const
const keyOf = (id: string) => `page:session:${secretDigest(id)}`

let nowMs: number
const sessions = createSessions({
  redis, limits: { idleMs: HOUR_MS, maxMs: 2.5 * HOUR_MS }, now: () => nowMs,
})
beforeEach(async () => {
  await emptyRedis()
  nowMs = 0
})

/** All keys and texts that are stored. */
async function stored () {
  const keys = await redis.keys('page:*')
  return { keys, texts: await Promise.all(keys.map(key => redis.get(key))) }
}

describe('a session', () => {
  it('lasts for the idle time after each use, up to its maximum', async () => {
    const { id, session } = await sessions.create(subject)
    for (const [ms, leftMs] of [[1.9 * HOUR_MS, 0.6 * HOUR_MS], [HOUR_MS, HOUR_MS]] as const) {
      nowMs = ms
      await expectLifetime(redis, { key: keyOf(id), ms: leftMs }, async () => {
        expect(await sessions.find(id)).toEqual(session)
      })
    }
    nowMs = 2.5 * HOUR_MS
    expect(await sessions.find(id)).toBeUndefined()
  })

  it('ends when it is idle, and checking its existence is not a use', async () => {
    const { id } = await expectLifetime(
      redis, { key: ({ id }) => keyOf(id), ms: HOUR_MS }, () => sessions.create(subject))
    const endsAtMs = await redis.pexpiretime(keyOf(id))
    nowMs = HOUR_MS
    expect(await sessions.exists(id)).toBe(true)
    expect(await redis.pexpiretime(keyOf(id))).toBe(endsAtMs)
    await redis.del(keyOf(id))
    expect([await sessions.exists(id), await sessions.find(id)]).toEqual([false, undefined])
  })

  it('is stored under a digest of its id, and ends at once', async () => {
    const { id } = await sessions.create(subject)
    const { keys, texts } = await stored()
    expect(keys).toEqual([keyOf(id)])
    expect(texts.join()).not.toContain(id)
    await sessions.end(id)
    expect(await sessions.find(id)).toBeUndefined()
  })
})

it('a sign-in code is valid once, within ten minutes', async () => {
  const codes = createSignInCodes(redis)
  const first = await expectLifetime(
    redis, { key: code => `page:sign-in:${secretDigest(code)}`, ms: SIGN_IN_LINK_MS },
    () => codes.create(subject))
  const second = await codes.create({ kind: 'operator' })
  // 256 random bits.
  expect(first).toMatch(/^[\w-]{43}$/)
  expect(second).not.toBe(first)
  expect(JSON.stringify(await stored())).not.toContain(first)
  expect(await codes.redeem(first)).toEqual(subject)
  expect(await codes.redeem(first)).toBeUndefined()
  expect([await codes.redeem(second), SIGN_IN_LINK_MS]).toEqual([{ kind: 'operator' }, 600_000])
})

it('the nonce of a form can be used once', async () => {
  const nonces = createNonces(redis)
  const nonce = nonces.create()
  expect([await nonces.use(nonce), await nonces.use(nonce), await nonces.use('')])
    .toEqual([true, false, false])
})
