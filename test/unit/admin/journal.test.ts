import { beforeEach, describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { type Amounts, post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import type { NumberedEntry } from '../../../services/accounts/access-log/access-log.ts'
import {
  type Progress, restore, type RestoreDeps,
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

async function * inPages<T> (entries: readonly T[]) {
  for (let from = 0; from < entries.length; from += ENTRIES_A_PAGE) {
    yield { entries: entries.slice(from, from + ENTRIES_A_PAGE), forged: from === 0 ? [9] : [] }
  }
}

let copied: Map<string, readonly Journal[]>
/** The numbers of the entries of the access log in its copy. */
let actions: readonly number[]
/** How many entries of the access log are written twice. */
let doubled: number
let counts: Record<string, number>
let members: Record<string, number>
let sent: Journal[]
let sentActions: NumberedEntry[]
let reported: Progress[]
beforeEach(() => {
  copied = new Map([['b.live', journalOf('b.live', 3)], ['a.live', journalOf('a.live', 5)]])
  actions = [1, 2, 3, 4]
  doubled = 0
  counts = {}
  members = {}
  sent = []
  sentActions = []
  reported = []
})

const deps = (): RestoreDeps => ({
  admin: {
    fetchTopicOffsets: async topic => {
      const [low, written] = topic === 'access.log' ? [0, sentActions.length] : [7, 0]
      const high = low + (counts[topic] ?? 0) + written
      return [{ partition: 0, offset: '', low: String(low), high: String(high) }]
    },
    describeGroups: async groups => ({
      groups: groups.map(groupId => ({
        groupId, members: Array.from({ length: members[groupId] ?? 0 }, () => ({})),
      })) as never,
    }),
  },
  copy: {
    lengths: async () => new Map([...copied.keys()].map(tenant => [tenant, 1])),
    pages: tenant => inPages(copied.get(tenant) ?? []),
  },
  accessCopy: { pages: () => inPages(actions.map(seq => accessEntry({ seq }))) },
  send: async entries => { sent.push(...entries) },
  sendAccess: async entries => { sentActions.push(...entries, ...entries.slice(0, doubled)) },
  show: progress => { reported.push(progress) },
})

it('a restore writes every entry of every tenant in order, and the access log', async () => {
  expect(await restore(deps())).toEqual({ tenants: 2, entries: 8, forged: 2, actions: 4 })
  expect(sent).toEqual([...copied.get('a.live')!, ...copied.get('b.live')!])
  expect(sentActions.map(({ seq }) => seq)).toEqual(actions)
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
    copied.set('b.live', [first!, { ...first!, entryId: 'topup:x' }, ...rest])
  }, 'b.live: two entries have the number 1\nTwo entries with one number are a contradiction'],
  ['a balance is inconsistent', () => {
    const entries = journalOf('b.live', 3)
    copied.set('b.live', entries.with(2, { ...entries[2]!, availableMicros: 99 }))
  }, 'b.live: entry 3 must have availableMicros 6'],
])('a restore writes nothing when %s', async (_, change, why) => {
  change()
  await expect(restore(deps())).rejects.toThrow(why)
  expect([sent, sentActions]).toEqual([[], []])
})

it('a restore writes a contradiction that a later entry resolves, with all entries', async () => {
  const [first, ...rest] = journalOf('b.live', 3)
  const elsewhere = { ...first!, ...post(ZERO_AMOUNTS, { ...first!, amountMicros: 9 }) }
  const contradicting = { ...elsewhere, entryId: 'topup:x', amountMicros: 9 }
  const resolving = { ...contradicting, ...post(rest.at(-1)!, contradicting), seq: 4 }
  const entries = [first!, contradicting, ...rest, resolving]
  copied.set('b.live', entries)
  expect(await restore(deps())).toMatchObject({ tenants: 2, entries: 10 })
  expect(sent).toEqual([...copied.get('a.live')!, ...entries])
  // A second one behind it is not resolved.
  copied.set('b.live', [...entries, { ...resolving, entryId: 'topup:y' }])
  await expect(restore(deps())).rejects.toThrow('b.live: two entries have the number 4')
})

it('a restore names the tenant whose copy changed after its verification', async () => {
  const changing = deps()
  let reads = 0
  const copy: RestoreDeps['copy'] = {
    ...changing.copy,
    pages: (tenant, from) => {
      reads += 1
      if (reads > 2) copied.set(tenant, journalOf(tenant, 9))
      return changing.copy.pages(tenant, from)
    },
  }
  await expect(restore({ ...changing, copy })).rejects.toThrow('The copy of a.live changed')
})

describe('the access log', () => {
  it('stays as it is in a topic that is not new', async () => {
    counts['access.log'] = 5
    expect(await restore(deps())).toMatchObject({ actions: 0 })
    expect(sentActions).toEqual([])
  })

  it.each<readonly [string, readonly number[], number, string]>([
    ['to a topic with some of its entries', [1, 2, 3, 4], 2,
      'has 2 messages, but its copy has entries up to number 4'],
    ['from a copy with a gap', [1, 3], 0, 'no entry 2 behind entry 1'],
    ['from a copy without its beginning', [2], 0, 'no entry 1 behind entry 0'],
    ['from a copy with a number twice', [1, 1], 0, 'two entries with the number 1'],
  ])('is not written %s', async (_, seqs, before, problem) => {
    actions = seqs
    counts['access.log'] = before
    await expect(restore(deps())).rejects.toThrow(problem)
    expect(sentActions).toEqual([])
  })

  it('that was written twice in part is noticed', async () => {
    doubled = 1
    await expect(restore(deps())).rejects
      .toThrow('has 6 messages, but its copy has entries up to number 4')
  })
})
