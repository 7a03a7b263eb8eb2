import { describe, expect, it } from 'vitest'
import { type GroupLag, TOPOLOGY_GROUPS } from '../../../services/runtime/kafka/lag.ts'
import {
  consumerGroups, lagLines, type LagSnapshot, lagText, takeLagSnapshot,
} from '../../../services/admin/lag.ts'
import type { Pause } from '../../../services/admin/pause.ts'
import { feedGroupOf } from '../../../services/runtime/platform/topics.ts'

const groupLag = (partition: number, offset: number, lag: number): GroupLag => ({
  stage: 'settle', group: 'settle.bulk', topic: 'rows.completed.bulk', partition, offset, lag,
})
const other: GroupLag = {
  stage: 'ledger', group: 'ledger', topic: 'wallet.journal', partition: 0, offset: 7, lag: 0,
}
const PAUSE: Pause = { stage: 'settle', since: '2026-08-11T10:00:00.000Z', by: 'ann', reason: 'x' }

const snapshot: LagSnapshot = {
  lags: [groupLag(0, 130, 30), groupLag(1, 50, 50), other],
  ages: new Map([['settle.bulk', 2.04]]),
  pauses: [],
  withoutKeys: 0,
}
const plain = (_style: string, text: string) => text

describe('lag lines', () => {
  it('sum the partitions of a group', () => {
    expect(lagLines(snapshot, { byPartition: false })).toEqual([
      {
        stage: 'settle',
        group: 'settle.bulk',
        topic: 'rows.completed.bulk',
        partition: null,
        partitions: 2,
        lagMessages: 80,
        oldestSeconds: 2,
        paused: false,
      },
      expect.objectContaining({ group: 'ledger', lagMessages: 0, oldestSeconds: null }),
    ])
  })

  it('are those of one stage, by partition, on request', () => {
    expect(lagLines(snapshot, { byPartition: true, stage: 'settle' })).toMatchObject([
      { partition: 0, lagMessages: 30 }, { partition: 1, lagMessages: 50 },
    ])
  })
})

describe('the lag table', () => {
  it('shows groups, and partitions on request', () => {
    const groups = lagText(lagLines(snapshot, { byPartition: false }), snapshot, plain)
    expect(groups.split('\n')).toEqual([
      'stage   group        partitions  lag  oldest',
      'settle  settle.bulk           2   80     2 s',
      'ledger  ledger                1    0       -',
      'Total lag: 80 messages in 2 groups.',
    ])
    const partitions = lagLines(snapshot, { byPartition: true, stage: 'settle' })
    const each = lagText(partitions, snapshot, plain)
    expect(each.split('\n')[2]).toMatch(/^settle {2}settle\.bulk {2}rows\.completed\.bulk +1 +50/)
  })
})

describe('a pause in the lag table', () => {
  const paused = { ...snapshot, pauses: [PAUSE] }

  it('marks each group of its stage, and is null when unknown', () => {
    const pausedIn = (of: LagSnapshot) =>
      lagLines(of, { byPartition: false }).map(({ paused }) => paused)
    expect([pausedIn(paused), pausedIn(snapshot), pausedIn({ ...snapshot, pauses: undefined })])
      .toEqual([[true, false], [false, false], [null, null]])
  })

  it('is shown in the table and below it', () => {
    const lines = lagLines(paused, { byPartition: false, stage: 'settle' })
    const text = lagText(lines, { pauses: [PAUSE], withoutKeys: 2 }, (style, text) =>
      style === 'yellow' || style === 'red' ? `!${text.trim()}!` : text)
    expect(text.split('\n').slice(1)).toEqual([
      expect.stringMatching(/^!settle \(paused\)! {2}settle\.bulk/),
      'Total lag: 80 messages in 1 group.',
      '!settle is paused! since 2026-08-11T10:00:00.000Z by ann: x. ' +
        'Resume it with "npm run admin -- resume settle".',
      '!Keys are missing in Redis: of 2 organizations.! "npm run admin -- keys list" names ' +
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
