import { describe, expect, it } from 'vitest'
import { membersOf, moveGroup, standingsOf } from '../../../../services/ops/replay/brokers.ts'
import { fromOf } from '../../../../services/ops/replay/from.ts'
import { groupOf } from '../../../../services/ops/replay/group.ts'
import { movesOf } from '../../../../services/ops/replay/moves.ts'
import { howToStop, replayText } from '../../../../services/ops/replay/text.ts'

const topic = 'rows.finished.bulk'
const standing = (partition: number, more: object = {}) =>
  ({ topic, partition, low: 10, high: 100, next: 90, ...more })

describe('where from', () => {
  it('is an offset, a time with its zone, or the beginning', () => {
    expect(fromOf('1200')).toEqual({ kind: 'offset', offset: 1_200 })
    expect(fromOf('1970-01-01T00:00:01Z')).toEqual({ kind: 'time', atMs: 1_000 })
    expect(fromOf('1970-01-01T02:00+02:00')).toEqual({ kind: 'time', atMs: 0 })
    expect(fromOf('beginning')).toEqual({ kind: 'beginning' })
    for (const text of ['', '-1', 'yesterday', '2026-08-11', '2026-08-11T09:30:00']) {
      expect(() => fromOf(text)).toThrow('--from is an offset')
    }
  })
})

describe('the group', () => {
  it('is named, or the only one that fits', () => {
    expect(groupOf({ stage: 'settle', group: 'settle.bulk' }))
      .toEqual({ group: 'settle.bulk', topics: [topic] })
    expect(groupOf({ stage: 'settle', topic }).group).toBe('settle.bulk')
    expect(groupOf({ stage: 'verify', topic: 'rows.later.small.whatsapp' }))
      .toEqual({ group: 'verify.small.whatsapp', topics: ['rows.later.small.whatsapp'] })
    expect(groupOf({ stage: 'deliver' }).group).toBe('deliver')
  })

  it('is asked for with what there is', () => {
    expect(() => groupOf({ stage: 'settle' }))
      .toThrow(/^Name one group: .*\n {2}settle\.small: rows\.finished\.small\n {2}settle\.bulk: /)
    expect(() => groupOf({ stage: 'settle', group: 'lookup.bulk' })).toThrow(/^No group fits this/)
    expect(() => groupOf({ stage: 'ingest' })).toThrow('reads no topic')
    expect(() => groupOf({ stage: 'feed' })).toThrow('nothing to replay in feed')
  })
})

describe('moves', () => {
  it('go back to what is still kept', () => {
    expect(movesOf([standing(0), standing(1, { next: 10 })], { kind: 'beginning' }))
      .toEqual([{ topic, partition: 0, next: 90, to: 10, messages: 80 }])
    expect(movesOf([standing(0)], { kind: 'offset', offset: 85 }))
      .toEqual([{ topic, partition: 0, next: 90, to: 85, messages: 5 }])
    const timed = [standing(0, { atTime: 50 }), standing(1, { atTime: 95 })]
    expect(movesOf(timed, { kind: 'time', atMs: 1 }))
      .toEqual([{ topic, partition: 0, next: 90, to: 50, messages: 40 }])
  })

  it('never go forward, nor to what is gone', () => {
    expect(() => movesOf([standing(0)], { kind: 'offset', offset: 95 }))
      .toThrow('would leave 5 messages undone')
    expect(() => movesOf([standing(0)], { kind: 'offset', offset: 9 }))
      .toThrow(`The oldest message still kept in partition 0 of ${topic} is 10.`)
  })
})

describe('the brokers', () => {
  it('are asked how partitions stand', async () => {
    const admin = {
      fetchOffsets: async () =>
        [{ topic, partitions: [{ partition: 0, offset: '-1', metadata: null }] }],
      fetchTopicOffsets: async () => [0, 1].map(partition =>
        ({ partition, offset: '9', low: '2', high: '9' })),
      fetchTopicOffsetsByTimestamp: async () => [{ partition: 0, offset: '5' }],
    }
    const meant = { group: 'settle.bulk', topics: [topic] }
    expect(await standingsOf(admin, meant, { from: { kind: 'time', atMs: 1 }, partition: 0 }))
      .toEqual([{ topic, partition: 0, low: 2, high: 9, next: 2, atTime: 5 }])
    const all = await standingsOf(admin, meant, {
      from: { kind: 'beginning' }, partition: undefined,
    })
    expect(all.map(({ partition }) => partition)).toEqual([0, 1])
  })

  it('count members, and are told offsets topic by topic', async () => {
    const groups = [{ members: [{}, {}] }]
    expect(await membersOf({ describeGroups: async () => ({ groups }) as never }, 'g')).toBe(2)
    const set: object[] = []
    await moveGroup({ setOffsets: async told => { set.push(told) } }, 'g',
      movesOf([standing(0), standing(1), { ...standing(0), topic: 'b' }], { kind: 'beginning' }))
    expect(set).toEqual([
      {
        groupId: 'g',
        topic,
        partitions: [{ partition: 0, offset: '10' }, { partition: 1, offset: '10' }],
      },
      { groupId: 'g', topic: 'b', partitions: [{ partition: 0, offset: '10' }] },
    ])
  })
})

describe('what is shown', () => {
  const replay = {
    stage: 'settle',
    group: 'settle.bulk',
    members: 0,
    done: false,
    moves: movesOf([standing(0)], { kind: 'beginning' }),
  }
  const text = (more: object) => replayText({ ...replay, ...more }, (_, text) => text)

  it('says what would be done, what was, or what to do first', () => {
    expect(text({})).toMatch(
      /\n\S+ +0 +90 +10 +80\nNothing was changed: 80 messages would be read .* --yes\.$/)
    expect(text({ done: true })).toContain('settle.bulk reads 80 messages once more')
    expect(text({ members: 1 })).toContain(howToStop({ ...replay, members: 1 }))
    expect(howToStop({ ...replay, members: 1 })).toContain('docker compose stop settle;')
    expect(text({ moves: [] })).toContain('nothing to do')
  })
})
