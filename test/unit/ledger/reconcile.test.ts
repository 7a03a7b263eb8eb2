import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { applyEntry, createJournalState } from '../../../services/ledger/journal-state.ts'
import { reconcile, chooseRetention, missingEntry } from '../../../services/ledger/compare.ts'
import type { JobInRedis, WalletSnapshot } from '../../../services/ledger/recovery-store.ts'
import { type Amounts, post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import { emptyWallet } from '../../support/recovery/wallet-snapshot.ts'

type Move = Pick<Journal, 'type' | 'job' | 'amountMicros' | 'chargeMicros'>

const topup = (amountMicros: number): Move =>
  ({ type: 'topup', job: '', amountMicros, chargeMicros: 0 })
const reserve = (job: string, amountMicros: number): Move =>
  ({ type: 'reserve', job, amountMicros, chargeMicros: 0 })
const settle = (job: string, amountMicros: number, chargeMicros: number): Move =>
  ({ type: 'settle', job, amountMicros, chargeMicros })

/** A journal of these movements, as a wallet would have written it. */
function journalOf (moves: readonly Move[]): readonly Journal[] {
  let amounts: Amounts = ZERO_AMOUNTS
  return moves.map((move, index) => {
    amounts = post(amounts, move)
    const id = move.job === '' ? `${move.type}:${index}` : `${move.job}:${move.type}`
    return {
      ...move,
      ...amounts,
      tenant: 'org_a.live',
      seq: index + 1,
      entryId: id,
      at: 1_000 + index,
      reason: '',
      header: null,
    }
  })
}

const entries = journalOf([topup(100), reserve('a', 30), settle('a', 30, 10), reserve('b', 20)])

function verdictOf (written: readonly Journal[], wallet: Partial<WalletSnapshot>) {
  const whole = { ...emptyWallet('org_a.live'), ...wallet }
  const retention = chooseRetention(whole, 0)
  const journal = createJournalState(retention)
  for (const entry of written) applyEntry(journal, entry, retention)
  return { ...reconcile(whole, journal, retention), journal }
}

const running = (job: string, state: JobInRedis['state'] = 'running'): JobInRedis =>
  ({ job, sinceMs: 0, state })
const at = (seq: number): Partial<WalletSnapshot> =>
  ({ seq, amounts: entries[seq - 1] ?? ZERO_AMOUNTS, openJobs: seq === 4 ? [running('b')] : [] })

describe('a tenant that is compared with its journal', () => {
  it('is sound when both end alike, whatever came twice or out of order', () => {
    const [first, second, third, fourth] = entries as [Journal, Journal, Journal, Journal]
    const { behind, faults, journal } =
      verdictOf([first, third, second, third, second, fourth, first], at(4))
    expect([behind, faults, journal.seq]).toEqual([false, [], 4])
    expect([[...journal.open.keys()], [...journal.ended.keys()]]).toEqual([['b'], []])
  })

  it('is ahead of it by what its outbox has', () => {
    const { behind, faults, journal } =
      verdictOf(entries.slice(0, 2), { ...at(4), outbox: entries.slice(2) })
    expect([behind, faults, journal.seq]).toEqual([false, [], 4])
  })

  it.each([0, 1, 2, 3])('is behind it after %d movements', seq => {
    const { behind, faults, journal } = verdictOf(entries, at(seq))
    expect([behind, faults]).toEqual([true, []])
    expect(journal.amounts).toEqual({
      availableMicros: 70, reservedMicros: 20, chargedMicros: 10, fundedMicros: 100,
    })
  })

  it('is frozen for balances that no entry explains', () => {
    const amounts = { ...ZERO_AMOUNTS, availableMicros: 71, fundedMicros: 71 }
    expect(verdictOf(entries, { ...at(4), amounts }).faults).toEqual([
      'after movement 4 Redis has availableMicros 71, reservedMicros 0, chargedMicros 0, ' +
      'fundedMicros 71, the journal availableMicros 70, reservedMicros 20, chargedMicros 10, ' +
      'fundedMicros 100',
    ])
    expect(verdictOf(entries, { ...at(4), amounts, trustsJournal: true }))
      .toMatchObject({ behind: true, faults: [] })
  })

  it('is frozen for movements the journal has lost, for a gap, and for two of a number', () => {
    expect(verdictOf(entries.slice(0, 3), at(4)).faults)
      .toContain('Redis has 4 movements, journal and outbox have 3')
    expect(verdictOf([entries[0]!, entries[2]!], at(1)).faults)
      .toEqual(['entries 2 to 2 are missing before entry 3'])
    const other = { ...entries[3]!, job: 'c' }
    expect(verdictOf([...entries, other], at(4)).faults)
      .toEqual(['there are two entries with the number 4'])
  })

  it('is frozen for a job that runs and has reserved nothing', () => {
    const unknownJobs = [running('b'), running('x'), running('y', 'gone')]
    expect(verdictOf(entries, { ...at(4), openJobs: unknownJobs }).faults)
      .toEqual(['x', 'y'].map(job => `job ${job} runs without a reservation`))
    const closing = [running('x', 'ended'), running('y', 'settled')]
    expect(verdictOf(entries, { ...at(4), openJobs: [running('b'), ...closing] }).faults)
      .toEqual([])
  })
})

type Entry = readonly [type: string, job: string, amountMicros: number, chargeMicros: number]

const FUNDED: Entry = ['topup', '', 100, 0]
const RESERVED: Entry = ['reserve', 'job_1', 30, 0]
const LAST: Entry = ['adjust', '', 1, 0]

/** The reconstructed entry of a journal with these movements, some of which are lost. */
function reconstruct (moves: readonly Entry[], ...lost: readonly number[]) {
  const retention = { seq: 0, openJobs: new Set<string>(), sinceMs: 0 }
  const journal = createJournalState(retention)
  let amounts: Amounts = ZERO_AMOUNTS
  for (const [index, [type, job, amountMicros, chargeMicros]] of moves.entries()) {
    amounts = post(amounts, { type, amountMicros, chargeMicros })
    const seq = index + 1
    const movement = { type, job, amountMicros, chargeMicros, ...amounts }
    const rest = { tenant: 'a', seq, entryId: `${seq}`, at: 10 * seq, reason: '', header: null }
    const entry: Journal = { ...movement, ...rest }
    if (!lost.includes(seq)) applyEntry(journal, entry, retention)
  }
  return missingEntry(journal)
}

describe('missingEntry', () => {
  it.each([['topup', 50], ['adjust', -20]] as const)('reconstructs a %s', (type, micros) => {
    expect(reconstruct([FUNDED, [type, '', micros, 0], RESERVED], 2)).toEqual({
      tenant: 'a',
      seq: 2,
      entryId: 'missing:2',
      type: 'adjust',
      job: '',
      amountMicros: micros,
      chargeMicros: 0,
      availableMicros: 100 + micros,
      reservedMicros: 0,
      chargedMicros: 0,
      fundedMicros: 100 + micros,
      at: 30,
      reason: 'reconstructed from entry 3: the entry itself is lost',
      header: null,
    })
  })

  it('reconstructs the end of the only job with that reservation', () => {
    const moves: readonly Entry[] = [FUNDED, RESERVED, ['reserve', 'job_2', 20, 0]]
    expect(reconstruct([...moves, ['settle', 'job_1', 30, 12], LAST], 4)).toMatchObject({
      entryId: 'job_1:settle',
      type: 'settle',
      job: 'job_1',
      amountMicros: 30,
      chargeMicros: 12,
      availableMicros: 68,
      reservedMicros: 20,
      chargedMicros: 12,
      fundedMicros: 100,
    })
  })

  const settled: Entry = ['settle', 'job_1', 30, 12]
  it.each<readonly [string, readonly Entry[], readonly number[]]>([
    ['nothing is missing', [FUNDED, RESERVED], []],
    ['nothing came behind it', [FUNDED, RESERVED], [2]],
    ['there are two', [FUNDED, LAST, LAST, RESERVED], [2, 3]],
    ['it is a reservation', [FUNDED, RESERVED, LAST], [2]],
    ['it could be the end of either of two jobs',
      [FUNDED, RESERVED, ['reserve', 'job_2', 30, 0], settled, LAST], [4]],
    ['it moved nothing', [FUNDED, ['reserve', 'job_1', 0, 0], LAST], [2]],
  ])('returns undefined when %s', (_, moves, lost) => {
    expect(reconstruct(moves, ...lost)).toBe(undefined)
  })
})
