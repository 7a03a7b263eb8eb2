import { describe, expect, it } from 'vitest'
import {
  createNonces, createSessions, createSignInCodes, secretDigest, SIGN_IN_LINK_MS,
} from '../../../services/accounts/sessions.ts'
import { createPageRedis } from '../../support/page/page-doubles.ts'

const subject = { kind: 'customer', orgId: 'org_1' } as const

function at (startMs = 1_000) {
  const clock = { ms: startMs }
  const now = () => clock.ms
  const redis = createPageRedis(now)
  const limits = { idleMs: 100, maxMs: 250 }
  return { clock, redis, sessions: createSessions({ redis: redis as never, limits, now }) }
}

describe('a session', () => {
  it('lasts while it is used, up to its maximum', async () => {
    const { clock, sessions } = at()
    const { id, session } = await sessions.create(subject)
    for (const ms of [1_090, 1_180, 1_249]) {
      clock.ms = ms
      expect(await sessions.find(id)).toEqual(session)
    }
    clock.ms = 1_250
    expect(await sessions.find(id)).toBeUndefined()
  })

  it('ends when it is idle, and checking its existence is not a use', async () => {
    const { clock, sessions } = at()
    const { id } = await sessions.create(subject)
    clock.ms = 1_099
    expect(await sessions.exists(id)).toBe(true)
    clock.ms = 1_100
    expect([await sessions.exists(id), await sessions.find(id)]).toEqual([false, undefined])
  })

  it('is stored under a digest of its id, and ends at once', async () => {
    const { redis, sessions } = at()
    const { id } = await sessions.create(subject)
    expect([...redis.kept.keys()]).toEqual([`page:session:${secretDigest(id)}`])
    expect(JSON.stringify([...redis.kept])).not.toContain(id)
    await sessions.end(id)
    expect(await sessions.find(id)).toBeUndefined()
    expect(await sessions.find('another')).toBeUndefined()
  })
})

describe('a sign-in code', () => {
  it('is valid once, within ten minutes', async () => {
    const clock = { ms: 0 }
    const redis = createPageRedis(() => clock.ms)
    const codes = createSignInCodes(redis as never)
    const [first, second] = [await codes.create(subject), await codes.create({ kind: 'operator' })]
    // 256 random bits.
    expect(first).toMatch(/^[\w-]{43}$/)
    expect(second).not.toBe(first)
    expect(JSON.stringify([...redis.kept])).not.toContain(first)
    expect(await codes.redeem(first)).toEqual(subject)
    expect(await codes.redeem(first)).toBeUndefined()
    clock.ms = SIGN_IN_LINK_MS
    expect(await codes.redeem(second)).toBeUndefined()
    expect(SIGN_IN_LINK_MS).toBe(600_000)
  })
})

describe('the nonce of a form', () => {
  it('can be used once', async () => {
    const nonces = createNonces(createPageRedis() as never)
    const nonce = nonces.create()
    expect([await nonces.use(nonce), await nonces.use(nonce), await nonces.use('')])
      .toEqual([true, false, false])
  })
})
