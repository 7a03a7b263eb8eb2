import { expect, it } from 'vitest'
import { createMarkActive, IDLE_AFTER_MS, MARK_LASTS_MS } from '../../../services/money/tenants.ts'

/** Redis that counts marks, and fails with an error of a connection while it is down. */
function setUp () {
  const state = { isDown: false, marks: 0, nowMs: 0 }
  const answer = async () => {
    if (state.isDown) throw new Error('Connection is closed.')
    state.marks += 1
  }
  const redis = { sadd: async () => {}, call: answer } as never
  return { state, activate: createMarkActive(redis, () => state.nowMs) }
}

it('a process marks a tenant as active once a minute', async () => {
  const { state, activate } = setUp()
  for (const nowMs of [0, 30_000, 59_999, 60_000]) {
    state.nowMs = nowMs
    await activate('org_1.live')
  }
  await activate('org_2.live')
  expect(state.marks).toBe(3)
})

it('a mark that cannot be repeated counts while it lasts in Redis', async () => {
  const { state, activate } = setUp()
  await activate('org_1.live')
  state.isDown = true
  await expect(activate('org_2.live')).rejects.toThrow('Connection is closed.')
  state.nowMs = MARK_LASTS_MS - 1
  await activate('org_1.live')
  state.nowMs = MARK_LASTS_MS
  await expect(activate('org_1.live')).rejects.toThrow('Connection is closed.')
  expect(MARK_LASTS_MS).toBeLessThan(IDLE_AFTER_MS)
})
