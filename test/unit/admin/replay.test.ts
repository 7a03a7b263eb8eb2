import { describe, expect, it } from 'vitest'
import {
  commitMoves, countMembers, howToStop, parseStart, planMoves, readPositions, replayText,
  selectGroup,
} from '../../../services/admin/replay.ts'

const topic = 'rows.completed.bulk'
const position = (partition: number, more: object = {}) =>
  ({ topic, partition, low: 10, high: 100, next: 90, ...more })

describe('the start of a replay', () => {
  it('is an offset, a time with time zone, or the beginning', () => {
    expect(parseStart('1200')).toEqual({ kind: 'offset', offset: 1_200 })
    expect(parseStart('1970-01-01T00:00:01Z')).toEqual({ kind: 'time', atMs: 1_000 })
    expect(parseStart('1970-01-01T02:00+02:00')).toEqual({ kind: 'time', atMs: 0 })
    expect(parseStart('beginning')).toEqual({ kind: 'beginning' })
    for (const text of ['', '-1', 'yesterday', '2026-08-11', '2026-08-11T09:30:00']) {
      expect(() => parseStart(text)).toThrow('is not an offset (1200)')
    }
  })
})

describe('the group of a replay', () => {
  it('is named, or the only one that matches', () => {
    expect(selectGroup({ stage: 'settle', group: 'settle.bulk' }))
      .toEqual({ group: 'settle.bulk', topics: [topic] })
    expect(selectGroup({ stage: 'settle', topic }).group).toBe('settle.bulk')
    expect(selectGroup({ stage: 'verify', topic: 'rows.retry.small.whatsapp' }))
      .toEqual({ group: 'verify.small.whatsapp', topics: ['rows.retry.small.whatsapp'] })
    expect(selectGroup({ stage: 'deliver' }).group).toBe('deliver')
  })

  it('must be unambiguous', () => {
    expect(() => selectGroup({ stage: 'settle' }))
      .toThrow(/^2 groups match\. .*\n {2}settle\.small: rows\.completed\.small\n/)
    expect(() => selectGroup({ stage: 'settle', group: 'lookup.bulk' }))
      .toThrow(/^No group matches --group and --topic/)
    expect(() => selectGroup({ stage: 'ingest' })).toThrow('reads no topic')
    expect(() => selectGroup({ stage: 'feed' })).toThrow('feed cannot be replayed')
  })
})

describe('the moves of a replay', () => {
  it('go back to retained offsets', () => {
    expect(planMoves([position(0), position(1, { next: 10 })], { kind: 'beginning' }))
      .toEqual([{ topic, partition: 0, next: 90, to: 10, messages: 80 }])
    expect(planMoves([position(0)], { kind: 'offset', offset: 85 }))
      .toEqual([{ topic, partition: 0, next: 90, to: 85, messages: 5 }])
    const timed = [position(0, { atTime: 50 }), position(1, { atTime: 95 })]
    expect(planMoves(timed, { kind: 'time', atMs: 1 }))
      .toEqual([{ topic, partition: 0, next: 90, to: 50, messages: 40 }])
  })

  it('never go forward, nor to a deleted offset', () => {
    expect(() => planMoves([position(0)], { kind: 'offset', offset: 95 }))
      .toThrow('would skip 5 messages')
    expect(() => planMoves([position(0)], { kind: 'offset', offset: 9 }))
      .toThrow(`Offset 9 of partition 0 of ${topic} is no longer retained. The oldest offset is ` +
        '10.')
  })
})

describe('the admin client of a replay', () => {
  it('reads the offsets of partitions', async () => {
    const admin = {
      fetchOffsets: async () =>
        [{ topic, partitions: [{ partition: 0, offset: '-1', metadata: null }] }],
      fetchTopicOffsets: async () => [0, 1].map(partition =>
        ({ partition, offset: '9', low: '2', high: '9' })),
      fetchTopicOffsetsByTimestamp: async () => [{ partition: 0, offset: '5' }],
    }
    const target = { group: 'settle.bulk', topics: [topic] }
    expect(await readPositions(admin, target, { from: { kind: 'time', atMs: 1 }, partition: 0 }))
      .toEqual([{ topic, partition: 0, low: 2, high: 9, next: 2, atTime: 5 }])
    const all = await readPositions(admin, target, {
      from: { kind: 'beginning' }, partition: undefined,
    })
    expect(all.map(({ partition }) => partition)).toEqual([0, 1])
  })

  it('counts members and commits offsets by topic', async () => {
    const groups = [{ members: [{}, {}] }]
    expect(await countMembers({ describeGroups: async () => ({ groups }) as never }, 'g')).toBe(2)
    const set: object[] = []
    await commitMoves({ setOffsets: async offsets => { set.push(offsets) } }, 'g',
      planMoves([position(0), position(1), { ...position(0), topic: 'b' }], { kind: 'beginning' }))
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

describe('the output of a replay', () => {
  const replay = {
    stage: 'settle',
    group: 'settle.bulk',
    members: 0,
    done: false,
    moves: planMoves([position(0)], { kind: 'beginning' }),
  }
  const text = (more: object) => replayText({ ...replay, ...more }, (_, text) => text)

  it('shows the plan, the result, or how to stop the group', () => {
    expect(text({})).toMatch(
      /\n\S+ +0 +90 +10 +80\nNothing was changed: 80 messages would be .* --yes to replay them\.$/)
    expect(text({ done: true })).toContain('settle.bulk will read 80 messages again')
    expect(text({ members: 1 })).toContain(howToStop({ ...replay, members: 1 }))
    expect(howToStop({ ...replay, members: 1 })).toContain('docker compose stop settle;')
    expect(text({ moves: [] })).toContain('nothing to replay')
  })
})
