import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createSessionLimiter, ownerOf, type SessionLimits,
} from '../../../../services/verify/mailboxes/connections.ts'

/** Time does not pass, so that only the test makes a session late. */
beforeEach(() => { vi.useFakeTimers({ toFake: ['Date', 'performance'] }) })
afterEach(() => { vi.useRealTimers() })

const never = new AbortController().signal
const limiterOf = (limits: Partial<SessionLimits> = {}) =>
  createSessionLimiter({ perOwner: 2, perOwnerAMinute: 60, connections: 10, ...limits })
const soon = () => ({ signal: never, startByMs: Date.now() + 100 })

/** Sessions that end when the test opens the gate. */
function createSessions () {
  const state = { running: 0, most: 0 }
  const gate = Promise.withResolvers<void>()
  const task = async () => {
    state.most = Math.max(state.most, ++state.running)
    await gate.promise
    state.running--
    return 'done'
  }
  return { state, task, open: gate.resolve }
}

const settle = async () => { for (let i = 0; i < 20; i++) await new Promise(setImmediate) }

describe('the limiter of SMTP sessions', () => {
  it('limits the sessions of one owner without delaying others', async () => {
    const limiter = limiterOf()
    const { state, task, open } = createSessions()
    const other = createSessions()
    const all = [1, 2, 3, 4].map(() => limiter(['owner:a.org'], task, soon()))
    const apart = limiter(['owner:b.org'], other.task, soon())
    await settle()
    expect([state.running, other.state.running]).toEqual([2, 1])
    open()
    other.open()
    expect(await Promise.all([...all, apart])).toEqual(Array(5).fill('done'))
    expect(state.most).toBe(2)
  })

  it('limits all sessions', async () => {
    const limiter = limiterOf({ connections: 3 })
    const { state, task, open } = createSessions()
    const all = [1, 2, 3, 4, 5].map((n) => limiter([`owner:${n}.org`], task, soon()))
    await settle()
    expect(state.running).toBe(3)
    open()
    await Promise.all(all)
    expect(state.most).toBe(3)
  })

  it('limits the starts per minute and rejects late sessions',
    async () => {
      const limiter = limiterOf({ perOwnerAMinute: 3 })
      const task = async () => 'done'
      const answers: unknown[] = []
      for (let n = 0; n < 10; n++) answers.push(await limiter(['owner:a.org'], task, soon()))
      expect(answers.filter((it) => it === 'done')).toHaveLength(3)
      expect(answers.slice(3)).toEqual(Array(7).fill(undefined))
    })

  it('does not run a session after its abort', async () => {
    const limiter = limiterOf({ perOwner: 1 })
    const { state, task, open } = createSessions()
    const first = limiter(['domain:a.org'], task, soon())
    const stop = new AbortController()
    const second = limiter(['domain:a.org'], task, { ...soon(), signal: stop.signal })
    await settle()
    stop.abort()
    expect(await second).toBeUndefined()
    const aborted = { ...soon(), signal: stop.signal }
    expect(await limiter(['domain:a.org'], task, aborted)).toBeUndefined()
    open()
    await first
    expect(await limiter(['domain:a.org'], async () => 'third', soon())).toBe('third')
    expect(state.most).toBe(1)
  })

  it('continues after a session that fails', async () => {
    const limiter = limiterOf({ perOwner: 1 })
    const fail = async () => { throw new Error('no') }
    await expect(limiter(['a'], fail, soon())).rejects.toThrow('no')
    expect(await limiter(['a'], async () => 'done', soon())).toBe('done')
  })
})

describe('the owner of a mail server', () => {
  it.each([
    ['mx1.mail.org', 'mail.org'],
    ['alt1.aspmx.l.google.com', 'google.com'],
    ['mx.shop.co.uk.', 'shop.co.uk'],
    ['mail.firma.de', 'firma.de'],
    ['localhost', 'localhost'],
  ])('of %s is %s', (host, owner) => {
    expect(ownerOf(host)).toBe(owner)
  })
})
