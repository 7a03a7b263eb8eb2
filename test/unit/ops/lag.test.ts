import { describe, expect, it } from 'vitest'
import { type GroupLag, TOPOLOGY_GROUPS } from '../../../services/kafka/lag.ts'
import {
  consumerGroups, lagLines, type LagSnapshot, lagText, takeLagSnapshot,
} from '../../../services/ops/lag.ts'
import type { Pause } from '../../../services/ops/pauses.ts'
import { feedGroupOf } from '../../../services/platform/topics.ts'

const groupLag = (partition: number, offset: number, lag: number): GroupLag => ({
  stage: 'settle', group: 'settle.bulk', topic: 'rows.completed.bulk', partition, offset, lag,
})
const other: GroupLag = {
  stage: 'ledger', group: 'ledger', topic: 'wallet.journal', partition: 0, offset: 7, lag: 0,
}
const snapshot = (atMs: number, lags: readonly GroupLag[], ages: object = {}): LagSnapshot =>
  ({ atMs, lags, ages: new Map(Object.entries(ages)), pauses: [], withoutKeys: 0 })
const PAUSE: Pause = { stage: 'settle', since: '2026-08-11T10:00:00.000Z', by: 'ann', reason: 'x' }

const before = snapshot(1_000, [groupLag(0, 100, 60), groupLag(1, 50, 40), other])
const after = snapshot(
  3_000, [groupLag(0, 130, 30), groupLag(1, 50, 50), other], { 'settle.bulk': 2.04 })

describe('lag lines', () => {
  it('sum the partitions of a group, with rates since the previous snapshot', () => {
    expect(lagLines(before, after, { byPartition: false })).toEqual([
      {
        stage: 'settle',
        group: 'settle.bulk',
        topic: 'rows.completed.bulk',
        partition: null,
        partitions: 2,
        lagMessages: 80,
        messagesPerSecond: 15,
        catchUpSeconds: 8,
        oldestSeconds: 2,
        paused: false,
      },
      expect.objectContaining({ group: 'ledger', messagesPerSecond: 0, catchUpSeconds: 0 }),
    ])
  })

  it('have no catch-up time when the lag does not decrease', () => {
    const [first, second] = lagLines(before, after, { byPartition: true, stage: 'settle' })
    expect(first).toMatchObject({ partition: 0, messagesPerSecond: 15, catchUpSeconds: 2 })
    expect(second).toMatchObject({ partition: 1, messagesPerSecond: 0, catchUpSeconds: null })
  })

  it('have no rates after the first snapshot', () => {
    expect(lagLines(undefined, after, { byPartition: false, stage: 'settle' }))
      .toMatchObject([{ lagMessages: 80, messagesPerSecond: null, catchUpSeconds: null }])
  })
})

describe('the lag table', () => {
  it('shows groups, and partitions on request', () => {
    const lines = lagLines(before, after, { byPartition: false })
    const groups = lagText(lines, after, (_, text) => text)
    expect(groups.split('\n')).toEqual([
      'stage   group        partitions  lag  messages/s  caught up in  oldest',
      'settle  settle.bulk           2   80          15           8 s     2 s',
      'ledger  ledger                1    0           0           0 s       -',
      'Total lag: 80 messages in 2 groups.',
    ])
    const each = lagText(lagLines(before, after, { byPartition: true, stage: 'settle' }), after,
      (style, text) => style === 'red' ? `!${text.trim()}!` : text)
    expect(each.split('\n')[2]).toMatch(/^settle {2}settle\.bulk {2}rows\.completed\.bulk +1 +!50!/)
  })
})

describe('a pause in the lag table', () => {
  const paused = { ...after, pauses: [PAUSE] }

  it('marks each group of its stage, and is null when unknown', () => {
    const pausedIn = (of: LagSnapshot) =>
      lagLines(before, of, { byPartition: false }).map(one => one.paused)
    expect([pausedIn(paused), pausedIn(after), pausedIn({ ...after, pauses: undefined })])
      .toEqual([[true, false], [false, false], [null, null]])
  })

  it('is shown in the table and below it', () => {
    const lines = lagLines(before, paused, { byPartition: false, stage: 'settle' })
    const text = lagText(lines, { pauses: [PAUSE], withoutKeys: 2 }, (style, text) =>
      style === 'yellow' || style === 'red' ? `!${text.trim()}!` : text)
    expect(text.split('\n').slice(1)).toEqual([
      expect.stringMatching(/^!settle \(paused\)! {2}settle\.bulk/),
      'Total lag: 80 messages in 1 group.',
      '!settle is paused! since 2026-08-11T10:00:00.000Z by ann: x. ' +
        'Resume it with "npm run ops -- resume settle".',
      '!Keys are missing in Redis: of 2 organizations.! "npm run workspace -- keys list" names ' +
        'them. No topic has them: see "Lost keys of an organization" in deploy/docs/keys.md.',
    ])
  })
})

describe('a lag snapshot', () => {
  it('includes the groups of partners', () => {
    expect(consumerGroups(['feeds.acme.submitted', 'feeds.acme.finished', 'strange'])).toEqual([
      ...TOPOLOGY_GROUPS,
      { stage: 'feed', group: feedGroupOf('acme'), topics: ['feeds.acme.submitted'] },
    ])
  })

  it('leaves out the topics of revoked partners, which nothing reads', async () => {
    const asked: string[] = []
    await takeLagSnapshot({
      admin: {
        listTopics: async () => ['feeds.acme.submitted', 'feeds.gone.submitted'],
        fetchTopicOffsets: async topic => {
          asked.push(topic)
          return []
        },
        fetchOffsets: async () => [],
      },
      targets: async () => [],
      pauses: async () => [],
      partners: async () => [
        { name: 'acme', revokedAtMs: 0 }, { name: 'gone', revokedAtMs: 1 },
      ],
    })
    expect(asked.filter(topic => topic.startsWith('feeds.'))).toEqual(['feeds.acme.submitted'])
  })

  it('uses the maximum of all processes, for the age of a group and missing keys', async () => {
    const admin = {
      listTopics: async () => [],
      fetchTopicOffsets: async () => [],
      fetchOffsets: async () => [],
    }
    const ages: Record<string, number> = { 'http://a': 3, 'http://b': 5 }
    const fetch = async (target: unknown) =>
      new Response(`stage_oldest_age_seconds{group="lookup.bulk"} ${ages[String(target)]}\n` +
        `organizations_without_keys ${ages[String(target)]}\n`)
    const found = await takeLagSnapshot({
      admin,
      targets: async () => Object.keys(ages),
      pauses: async () => [PAUSE],
      partners: async () => undefined,
      fetch: fetch as never,
    })
    expect([...found.ages]).toEqual([['lookup.bulk', 5]])
    expect(found.withoutKeys).toBe(5)
    expect(found.pauses).toEqual([PAUSE])
  })
})
