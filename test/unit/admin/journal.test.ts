import { beforeEach, describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { type Amounts, post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import type { NumberedEntry } from '../../../services/accounts/access-log/access-log.ts'
import {
  type Progress, restoreAccessLog, type RestoreDeps, restoreJournal,
} from '../../../services/admin/journal-restore.ts'
import { accessEntry } from '../../support/access.ts'

const ENTRIES_A_PAGE = 2

/** Top-ups of 1, 2, 3 ... micros. */
function journalOf (tenant: string, entries: number): readonly Journal[] {
  let amounts: Amounts = ZERO_AMOUNTS
  return Array.from({ length: entries }, (_, index) => {
    const movement = { type: 'topup', amountMicros: index + 1, chargeMicros: 0 }
    amounts = post(amounts, movement)
    const more = { tenant, seq: index + 1, entryId: `topup:${index}`, job: '', at: 1, reason: '' }
    return { ...movement, ...amounts, ...more, header: null }
  })
}

let copied: Map<string, readonly Journal[]>
let counts: Record<string, number>
let members: Record<string, number>
let sent: Journal[]
let reported: Progress[]
beforeEach(() => {
  copied = new Map([['b.live', journalOf('b.live', 3)], ['a.live', journalOf('a.live', 5)]])
  counts = {}
  members = {}
  sent = []
  reported = []
})

const deps = (): RestoreDeps => ({
  admin: {
    fetchTopicOffsets: async topic =>
      [{ partition: 0, offset: '', low: '7', high: String(7 + (counts[topic] ?? 0)) }],
    describeGroups: async groups => ({
      groups: groups.map(groupId => ({
        groupId, members: Array.from({ length: members[groupId] ?? 0 }, () => ({})),
      })) as never,
    }),
  },
  copy: {
    lengths: async () => new Map([...copied.keys()].map(tenant => [tenant, 1])),
    pages: async function * (tenant) {
      const entries = copied.get(tenant) ?? []
      for (let from = 0; from < entries.length; from += ENTRIES_A_PAGE) {
        const forged = from === 0 && tenant === 'a.live' ? [9] : []
        yield { entries: entries.slice(from, from + ENTRIES_A_PAGE), forged }
      }
    },
  },
  send: async entries => { sent.push(...entries) },
  show: progress => { reported.push(progress) },
})

describe('the restore of the journal', () => {
  it('writes every entry of every tenant in order and reports its progress', async () => {
    const restored = await restoreJournal(deps())
    expect(restored).toEqual({ tenants: 2, entries: 8, forged: 1 })
    expect(sent).toEqual([...copied.get('a.live')!, ...copied.get('b.live')!])
    expect(reported.at(-1)).toEqual({ step: 'restored', entries: 8, tenants: 1 })
  })

  it.each<readonly [string, () => void, string]>([
    ['the topic has messages', () => { counts['wallet.journal'] = 2 },
      'The topic wallet.journal has 2 messages'],
    ['wallet.snapshots has messages', () => { counts['wallet.snapshots'] = 1 },
      'The topic wallet.snapshots has 1 messages'],
    ['a stage that writes the journal is running', () => { members['settle.small'] = 1 },
      'still running (groups settle.small). Stop lookup, settle, ledger first'],
    ['the copy is empty', () => copied.clear(), 'has no entries'],
    ['an entry is missing', () => copied.set('b.live', journalOf('b.live', 4).toSpliced(1, 1)),
      'b.live: entries 2 to 2 are missing'],
    ['two entries have the same number', () => {
      const [first, ...rest] = journalOf('b.live', 3)
      copied.set('b.live', [first!, { ...first!, reason: 'another' }, ...rest])
    }, 'b.live: two entries have the number 1'],
    ['a balance is inconsistent', () => {
      const entries = journalOf('b.live', 3)
      copied.set('b.live', entries.with(2, { ...entries[2]!, availableMicros: 99 }))
    }, 'b.live: entry 3 must have availableMicros 6'],
  ])('writes nothing when %s', async (_, change, why) => {
    change()
    await expect(restoreJournal(deps())).rejects.toThrow(why)
    expect(sent).toEqual([])
  })

  it('names the tenant whose copy changed after its verification', async () => {
    const changing = deps()
    let reads = 0
    const { pages } = changing.copy
    const copy: RestoreDeps['copy'] = {
      ...changing.copy,
      pages: (tenant, from) => {
        reads += 1
        if (reads > 2) copied.set(tenant, journalOf(tenant, 9))
        return pages(tenant, from)
      },
    }
    await expect(restoreJournal({ ...changing, copy })).rejects
      .toThrow('The copy of a.live changed')
  })
})

/** A copy with these numbers, and a topic that had some messages and loses or doubles some. */
function createRestore (seqs: readonly number[], { before = 0, doubled = 0 } = {}) {
  const sent: NumberedEntry[] = []
  const restore = () => restoreAccessLog({
    admin: {
      fetchTopicOffsets: async () =>
        [{ partition: 0, offset: '', low: '0', high: String(before + sent.length) }],
    },
    accessCopy: {
      pages: async function * () {
        const entries = seqs.map(seq => accessEntry({ seq }))
        yield { entries: entries.slice(0, 2), forged: [] }
        yield { entries: entries.slice(2), forged: [7] }
      },
    },
    sendAccess: async entries => { sent.push(...entries, ...entries.slice(0, doubled)) },
  })
  return { sent, restore }
}

it.each([
  ['is written in the order of its numbers', [1, 2, 3, 4], {}, 4, 4],
  ['stays as it is in a topic that is not new', [1, 2], { before: 3 }, 0, 0],
])('the access log %s', async (_, seqs, topic, restored, written) => {
  const { sent, restore } = createRestore(seqs, topic)
  expect(await restore()).toBe(restored)
  expect(sent.map(({ seq }) => seq)).toEqual(seqs.slice(0, written))
})

it.each([
  ['to a topic with some of its entries', [1, 2, 3, 4], { before: 2 },
    'has 2 messages, but its copy has entries up to number 4'],
  ['from a copy with a gap', [1, 3], {}, 'no entry 2 behind entry 1'],
  ['from a copy without its beginning', [2], {}, 'no entry 1 behind entry 0'],
  ['from a copy with a number twice', [1, 1], {}, 'two entries with the number 1'],
])('the access log is not written %s', async (_, seqs, topic, problem) => {
  const { sent, restore } = createRestore(seqs, topic)
  await expect(restore()).rejects.toThrow(problem)
  expect(sent).toEqual([])
})

it('a message that was written twice is noticed', async () => {
  const { restore } = createRestore([1, 2, 3], { doubled: 1 })
  await expect(restore()).rejects.toThrow('has 5 messages, but its copy has entries up to number 3')
})
