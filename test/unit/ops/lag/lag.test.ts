import { describe, expect, it } from 'vitest'
import { TOPOLOGY_GROUPS, type Place } from '../../../../services/lib/kafka/lag.ts'
import { linesOf } from '../../../../services/ops/lag/lines.ts'
import { groupsOf, lookAt, type Look } from '../../../../services/ops/lag/look.ts'
import { lagText } from '../../../../services/ops/lag/text.ts'
import type { Pause } from '../../../../services/ops/pause/pauses.ts'

const place = (partition: number, offset: number, lag: number): Place => ({
  stage: 'settle', group: 'settle.bulk', topic: 'rows.finished.bulk', partition, offset, lag,
})
const other: Place = {
  stage: 'ledger', group: 'ledger', topic: 'wallet.journal', partition: 0, offset: 7, lag: 0,
}
const look = (atMs: number, places: readonly Place[], ages: object = {}): Look =>
  ({ atMs, places, ages: new Map(Object.entries(ages)), pauses: [] })
const PAUSE: Pause = { stage: 'settle', since: '2026-08-11T10:00:00.000Z', by: 'ann', reason: 'x' }

const before = look(1_000, [place(0, 100, 60), place(1, 50, 40), other])
const after = look(3_000, [place(0, 130, 30), place(1, 50, 50), other], { 'settle.bulk': 2.04 })

describe('lines', () => {
  it('sum a group, with rates since the look before', () => {
    expect(linesOf(before, after, { byPartition: false })).toEqual([
      {
        stage: 'settle',
        group: 'settle.bulk',
        topic: 'rows.finished.bulk',
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

  it('tell no time where a lag does not fall', () => {
    const [first, second] = linesOf(before, after, { byPartition: true, stage: 'settle' })
    expect(first).toMatchObject({ partition: 0, messagesPerSecond: 15, catchUpSeconds: 2 })
    expect(second).toMatchObject({ partition: 1, messagesPerSecond: 0, catchUpSeconds: null })
  })

  it('tell no rates at the first look', () => {
    expect(linesOf(undefined, after, { byPartition: false, stage: 'settle' }))
      .toMatchObject([{ lagMessages: 80, messagesPerSecond: null, catchUpSeconds: null }])
  })
})

describe('the table', () => {
  it('shows groups, and partitions when asked', () => {
    const groups = lagText(linesOf(before, after, { byPartition: false }), [], (_, text) => text)
    expect(groups.split('\n')).toEqual([
      'stage   group        partitions  lag  messages/s  caught up in  oldest',
      'settle  settle.bulk           2   80          15           8 s     2 s',
      'ledger  ledger                1    0           0           0 s       -',
      '80 messages wait in 2 groups.',
    ])
    const each = lagText(linesOf(before, after, { byPartition: true, stage: 'settle' }), [],
      (style, text) => style === 'red' ? `!${text.trim()}!` : text)
    expect(each.split('\n')[2]).toMatch(/^settle {2}settle\.bulk {2}rows\.finished\.bulk +1 +!50!/)
  })
})

describe('a pause', () => {
  const paused = { ...after, pauses: [PAUSE] }

  it('is told of each group of its stage, and not told where nobody knows', () => {
    const told = (of: Look) => linesOf(before, of, { byPartition: false }).map(one => one.paused)
    expect([told(paused), told(after), told({ ...after, pauses: undefined })])
      .toEqual([[true, false], [false, false], [null, null]])
  })

  it('stands in the table and below it', () => {
    const lines = linesOf(before, paused, { byPartition: false, stage: 'settle' })
    const text = lagText(lines, [PAUSE], (style, text) =>
      style === 'yellow' ? `!${text.trim()}!` : text)
    expect(text.split('\n').slice(1)).toEqual([
      expect.stringMatching(/^!settle \(paused\)! {2}settle\.bulk/),
      '80 messages wait in 1 groups.',
      '!settle is paused! since 2026-08-11T10:00:00.000Z by ann: x. ' +
        'It goes on by "npm run ops -- resume settle".',
    ])
  })
})

describe('a look', () => {
  it('knows the groups of partners, which are those of their topics', () => {
    expect(groupsOf(['feeds.acme.submitted', 'feeds.acme.finished', 'strange'])).toEqual([
      ...TOPOLOGY_GROUPS,
      { stage: 'feed', group: 'feed.acme', topics: ['feeds.acme.submitted'] },
    ])
  })

  it('takes the greatest age that any process of a group tells', async () => {
    const admin = {
      listTopics: async () => [],
      fetchTopicOffsets: async () => [],
      fetchOffsets: async () => [],
    }
    const ages: Record<string, number> = { 'http://a': 3, 'http://b': 5 }
    const fetch = async (target: unknown) =>
      new Response(`stage_oldest_age_seconds{group="lookup.bulk"} ${ages[String(target)]}\n`)
    const found = await lookAt({
      admin,
      targets: async () => Object.keys(ages),
      pauses: async () => [PAUSE],
      fetch: fetch as never,
    })
    expect([...found.ages]).toEqual([['lookup.bulk', 5]])
    expect(found.pauses).toEqual([PAUSE])
  })
})
