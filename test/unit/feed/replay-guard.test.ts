import { describe, expect, it } from 'vitest'
import {
  ReplayGuard, type Marks, type ReplayGuardDeps,
} from '../../../services/feed/replay-guard.ts'

const NOW_MS = 1_790_000_000_000
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

function guardOn (
  marks: Marks = { offset: -1, senders: new Map() }, isStored = true, now = () => NOW_MS
) {
  const written: Parameters<ReplayGuardDeps['write']>[0][] = []
  const guard = new ReplayGuard({
    marks,
    write: async change => written.push(change) > 0 && isStored,
    writeDead: async () => {},
    now,
  })
  return { guard, written }
}
const stamp = (sequence: number, sender = 'a', sentAt = NOW_MS) => ({ sender, sequence, sentAt })

describe('the replay guard', () => {
  it('accepts a replay below the mark of its sender once, and remembers it', async () => {
    const { guard, written } = guardOn()
    expect(guard.check(0, stamp(5))).toBe('fresh')
    expect([3, 3, 4].map((sequence, index) =>
      guard.checkReplay(1 + index, stamp(sequence), NOW_MS - 39 * DAY_MS)))
      .toEqual(['fresh', 'replayed', 'fresh'])
    expect(guard.checkReplay(4, stamp(2), NOW_MS - 41 * DAY_MS)).toBe('fresh')
    await guard.save(4)
    expect([...written[0]?.changed.keys() ?? []]).toEqual(['a', 'replay:a:3', 'replay:a:4'])
    expect(written[0]?.forgotten).toEqual(['replay:a:2'])
    // The mark of the sender stays where it was.
    expect([5, 6].map((sequence, index) => guard.check(5 + index, stamp(sequence))))
      .toEqual(['replayed', 'fresh'])
  })

  it('stores the marks as of an offset, without later contacts', async () => {
    const { guard, written } = guardOn()
    for (const offset of [0, 1, 2, 3]) guard.check(offset, stamp(offset))
    expect(await guard.save(1)).toBe(true)
    expect(await guard.save(1)).toBe(true)
    expect(await guard.save(3)).toBe(true)
    const markOf = (sequence: number) => new Map([['a', { sequence, sentAt: NOW_MS }]])
    expect(written).toEqual([
      { since: -1, offset: 1, changed: markOf(1), forgotten: [] },
      { since: 1, offset: 3, changed: markOf(3), forgotten: [] },
    ])
  })

  it('keeps the latest time of a sender whose clock goes back', async () => {
    const { guard, written } = guardOn()
    guard.check(0, stamp(0))
    guard.check(1, stamp(1, 'a', 5))
    await guard.save(1)
    expect(written[0]?.changed.get('a')).toEqual({ sequence: 1, sentAt: NOW_MS })
  })

  it('removes senders whose contacts are all too old to be accepted', async () => {
    const mark = (sentAt: number) => ({ sequence: 9, sentAt })
    const { guard, written } = guardOn({
      offset: 0,
      senders: new Map([
        ['old', mark(NOW_MS - 8 * DAY_MS - 1)], ['young', mark(NOW_MS - 8 * DAY_MS)],
      ]),
    })
    guard.check(1, stamp(1, 'ancient', 5))
    await guard.save(1)
    expect(written).toEqual([
      { since: 0, offset: 1, changed: new Map(), forgotten: ['old', 'ancient'] },
    ])
    expect(guard.check(2, stamp(1, 'old'))).toBe('fresh')
    expect(guard.check(3, stamp(1, 'young'))).toBe('replayed')
  })

  it('looks for old senders once an hour, so that a save takes no time for each', async () => {
    let nowMs = NOW_MS
    let times = 0
    const senders = new Map(Array.from({ length: 1_000 }, (_, index) =>
      [`s${index}`, {
        sequence: 1,
        // Each is asked for its time when it is looked at.
        get sentAt () {
          times++
          return NOW_MS - 8 * DAY_MS + 1
        },
      }]))
    const { guard, written } = guardOn({ offset: 0, senders }, true, () => nowMs)
    for (let offset = 1; offset <= 100; offset++) {
      guard.check(offset, stamp(offset))
      await guard.save(offset)
    }
    expect(times).toBe(1_000)
    nowMs += HOUR_MS
    guard.check(101, stamp(101))
    await guard.save(101)
    expect(written.at(-1)?.forgotten).toHaveLength(1_000)
  })

  it('accepts no new sender above the maximum, but contacts of known ones', () => {
    const senders = new Map(Array.from({ length: 100_000 }, (_, index) =>
      [`s${index}`, { sequence: 1, sentAt: NOW_MS }]))
    const { guard } = guardOn({ offset: 0, senders })
    expect(guard.check(1, stamp(1))).toBe('too_many_senders')
    expect(guard.check(2, stamp(2, 's0'))).toBe('fresh')
  })
})
