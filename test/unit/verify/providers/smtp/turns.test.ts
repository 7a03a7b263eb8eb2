import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createTurns, ownerOf, type TurnLimits,
} from '../../../../../services/verify/providers/smtp/turns.ts'

/** Time stands still, so that nobody comes too late but by the test. */
beforeEach(() => { vi.useFakeTimers({ toFake: ['Date', 'performance'] }) })
afterEach(() => { vi.useRealTimers() })

const never = new AbortController().signal
const turnsOf = (limits: Partial<TurnLimits> = {}) =>
  createTurns({ perOwner: 2, perOwnerAMinute: 60, connections: 10, ...limits })
const soon = () => ({ signal: never, beginByMs: Date.now() + 100 })

/** Tasks that end when they are told to. */
function crowd () {
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

describe('turns', () => {
  it('let only so many talk to one owner, and others go on', async () => {
    const turns = turnsOf()
    const { state, task, open } = crowd()
    const other = crowd()
    const all = [1, 2, 3, 4].map(() => turns(['owner:a.org'], task, soon()))
    const apart = turns(['owner:b.org'], other.task, soon())
    await settle()
    expect([state.running, other.state.running]).toEqual([2, 1])
    open()
    other.open()
    expect(await Promise.all([...all, apart])).toEqual(Array(5).fill('done'))
    expect(state.most).toBe(2)
  })

  it('let only so many talk at all', async () => {
    const turns = turnsOf({ connections: 3 })
    const { state, task, open } = crowd()
    const all = [1, 2, 3, 4, 5].map((n) => turns([`owner:${n}.org`], task, soon()))
    await settle()
    expect(state.running).toBe(3)
    open()
    await Promise.all(all)
    expect(state.most).toBe(3)
  })

  it('begin no more in a minute than they may, and take none from those who come too late',
    async () => {
      const turns = turnsOf({ perOwnerAMinute: 3 })
      const task = async () => 'done'
      const answers: unknown[] = []
      for (let n = 0; n < 10; n++) answers.push(await turns(['owner:a.org'], task, soon()))
      expect(answers.filter((it) => it === 'done')).toHaveLength(3)
      expect(answers.slice(3)).toEqual(Array(7).fill(undefined))
    })

  it('are given up by those who stop waiting', async () => {
    const turns = turnsOf({ perOwner: 1 })
    const { state, task, open } = crowd()
    const first = turns(['domain:a.org'], task, soon())
    const stop = new AbortController()
    const second = turns(['domain:a.org'], task, { ...soon(), signal: stop.signal })
    await settle()
    stop.abort()
    expect(await second).toBeUndefined()
    expect(await turns(['domain:a.org'], task, { ...soon(), signal: stop.signal })).toBeUndefined()
    open()
    await first
    expect(await turns(['domain:a.org'], async () => 'third', soon())).toBe('third')
    expect(state.most).toBe(1)
  })

  it('go on after a task that fails', async () => {
    const turns = turnsOf({ perOwner: 1 })
    await expect(turns(['a'], async () => { throw new Error('no') }, soon())).rejects.toThrow('no')
    expect(await turns(['a'], async () => 'done', soon())).toBe('done')
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
