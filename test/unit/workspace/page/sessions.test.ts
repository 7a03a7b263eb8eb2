import { describe, expect, it } from 'vitest'
import { createOnce } from '../../../../services/workspace/page/once.ts'
import { createSessions } from '../../../../services/workspace/page/sessions.ts'
import {
  createSignInCodes, digestOf, newSecret, SIGN_IN_WITHIN_MS,
} from '../../../../services/workspace/page/sign-in-codes.ts'
import { createPageRedis } from '../../../support/page-parts.ts'

const holder = { kind: 'customer', orgId: 'org_1' } as const

function at (startMs = 1_000) {
  const clock = { ms: startMs }
  const now = () => clock.ms
  const redis = createPageRedis(now)
  const times = { idleMs: 100, wholeMs: 250 }
  return { clock, redis, sessions: createSessions({ redis: redis as never, times, now }) }
}

describe('a session', () => {
  it('lasts as long as it is used, up to its end', async () => {
    const { clock, sessions } = at()
    const { id, session } = await sessions.begin(holder)
    for (const ms of [1_090, 1_180, 1_249]) {
      clock.ms = ms
      expect(await sessions.find(id)).toEqual(session)
    }
    clock.ms = 1_250
    expect(await sessions.find(id)).toBeUndefined()
  })

  it('ends when it is idle, and asking whether it is there is no use of it', async () => {
    const { clock, sessions } = at()
    const { id } = await sessions.begin(holder)
    clock.ms = 1_099
    expect(await sessions.isThere(id)).toBe(true)
    clock.ms = 1_100
    expect([await sessions.isThere(id), await sessions.find(id)]).toEqual([false, undefined])
  })

  it('is stored under a hash, and ended at once', async () => {
    const { redis, sessions } = at()
    const { id } = await sessions.begin(holder)
    expect([...redis.kept.keys()]).toEqual([`page:session:${digestOf(id)}`])
    expect(JSON.stringify([...redis.kept])).not.toContain(id)
    await sessions.end(id)
    expect(await sessions.find(id)).toBeUndefined()
    expect(await sessions.find('another')).toBeUndefined()
  })
})

describe('a code to sign in with', () => {
  it('works once, within ten minutes', async () => {
    const clock = { ms: 0 }
    const redis = createPageRedis(() => clock.ms)
    const codes = createSignInCodes(redis as never)
    const [first, second] = [await codes.create(holder), await codes.create({ kind: 'operator' })]
    expect(JSON.stringify([...redis.kept])).not.toContain(first)
    expect(await codes.redeem(first)).toEqual(holder)
    expect(await codes.redeem(first)).toBeUndefined()
    clock.ms = SIGN_IN_WITHIN_MS
    expect(await codes.redeem(second)).toBeUndefined()
    expect(SIGN_IN_WITHIN_MS).toBe(600_000)
  })

  it('has 256 random bits', () => {
    expect(newSecret()).toMatch(/^[\w-]{43}$/)
    expect(newSecret()).not.toBe(newSecret())
  })
})

describe('the mark of a form', () => {
  it('is good for one time', async () => {
    const once = createOnce(createPageRedis() as never)
    const mark = once.mark()
    expect([await once.use(mark), await once.use(mark), await once.use('')])
      .toEqual([true, false, false])
  })
})
