import { describe, expect, it } from 'vitest'
import type { Journal, Snapshot } from '../../../schemas/types.ts'
import {
  chooseRetention, createJournalState, type JournalRetention, readJournal, reconcile,
  writeSnapshots,
} from '../../../services/ledger/journal-state.ts'
import type { JobInRedis, WalletSnapshot } from '../../../services/ledger/recovery-store.ts'
import { type Amounts, post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { codec } from '../../support/clickhouse/results.ts'
import { emptyWallet } from '../../support/recovery/ledger-events.ts'
import { TENANT } from '../../support/stage-messages.ts'

type Move = readonly [type: string, job: string, amountMicros: number, chargeMicros?: number]

/** A journal of these movements, as a wallet would have written it: an entry each 10 ms. */
function journalOf (moves: readonly Move[], tenant = TENANT): readonly Journal[] {
  let amounts: Amounts = ZERO_AMOUNTS
  return moves.map(([type, job, amountMicros, chargeMicros = 0], index) => {
    const movement = { type, job, amountMicros, chargeMicros }
    amounts = post(amounts, movement)
    const seq = index + 1
    const entryId = job === '' ? `${type}:${seq}` : `${job}:${type}`
    const more = { tenant, seq, entryId, at: 10 * seq, reason: '', header: null }
    return { ...movement, ...amounts, ...more }
  })
}

const NOTHING: JournalRetention = { seq: 0, openJobs: new Set(), sinceMs: 0 }
const { signal } = new AbortController()

/** A topic of batches of entries; null is a message without a value. Each entry has an offset. */
const readerOf = (batches: readonly (readonly (Journal | null)[])[]) => ({
  read: async (topic: string, onMessages: (messages: readonly RawMessage[]) => unknown) => {
    expect(topic).toBe('wallet.journal')
    let offset = 0n
    for (const batch of batches) {
      await onMessages(await Promise.all(batch.map(async entry => ({
        value: entry && await codec.encode('wallet.journal-value', entry),
        partition: 1,
        offset: offset++,
      } as RawMessage))))
    }
    return new Map([[0, 4n], [1, offset]])
  },
})

/** The state after these entries of one tenant. */
async function read (
  entries: readonly Journal[], retention = NOTHING, snapshot?: Snapshot
) {
  const journal = createJournalState(retention, snapshot)
  await readJournal({ reader: readerOf([entries]), codec }, {
    onTenants: async () => {}, trackedOf: () => ({ journal, retention }), signal,
  })
  return journal
}

/** Three jobs that reserved nothing, each with its end. */
const free = journalOf(['a', 'b', 'c'].flatMap((job): Move[] =>
  [['reserve', job, 0], ['settle', job, 0]]))
const NONE: JournalRetention = { seq: 6, openJobs: new Set(), sinceMs: 0 }

it.each<[string, JournalRetention, readonly string[]]>([
  ['that Redis has not heard of', { ...NONE, seq: 2 }, ['b', 'c']],
  ['whose end Redis has not heard of', { ...NONE, seq: 3 }, ['b', 'c']],
  ['of the last day', { ...NONE, seq: 0, sinceMs: 40 }, ['b', 'c']],
  ['older ones that Redis takes for open',
    { seq: 0, openJobs: new Set(['a']), sinceMs: 60 }, ['a', 'c']],
  ['none that Redis knows', { ...NONE, openJobs: new Set(['a']) }, []],
])('of ended jobs those are remembered %s', async (_, retention, remembered) => {
  const { faults, ended, open, endedOpen } = await read(free, retention)
  expect([faults, [...ended.keys()], open.size]).toEqual([[], remembered, 0])
  expect([...endedOpen]).toEqual([...retention.openJobs])
})

describe('a journal that begins with a snapshot', () => {
  const snapshotAfter = async (seq: number): Promise<Snapshot> => {
    const journal = await read(free.slice(0, seq), NONE)
    const { written } = await writeSnapshots({
      emitter: { emit: async () => {} },
      log: { warn: () => {}, error: () => {} },
      metrics: { count: () => {} },
    }, [[TENANT, journal]], [7])
    return JSON.parse(written.get(TENANT)!)
  }

  it('recalls jobs that Redis lacks from entries before it, in whatever order', async () => {
    const snapshot = await snapshotAfter(5)
    expect(snapshot.open).toEqual([{ job: 'c', seq: 5, at: 50, amountMicros: 0 }])
    const repeated = [3, 2, 4, 5, 3].map(seq => free[seq - 1]!)
    const { ended, open, seq, faults } = await read(repeated, NOTHING, snapshot)
    expect([...ended].map(([job, { reserve, end }]) => [job, reserve?.seq, end.seq]))
      .toEqual([['b', 3, 4]])
    expect(open.get('c')?.entry?.seq).toBe(5)
    expect([seq, faults]).toEqual([5, []])
  })
})

const entries = journalOf([
  ['topup', '', 100], ['reserve', 'a', 30], ['settle', 'a', 30, 10], ['reserve', 'b', 20],
])

async function verdictOf (written: readonly Journal[], wallet: Partial<WalletSnapshot>) {
  const whole = { ...emptyWallet(TENANT), ...wallet }
  const retention = chooseRetention(whole, 0)
  const journal = await read(written, retention)
  return { ...reconcile(whole, journal, retention), journal }
}

const running = (job: string, state: JobInRedis['state'] = 'running'): JobInRedis =>
  ({ job, sinceMs: 0, state })
const at = (seq: number): Partial<WalletSnapshot> =>
  ({ seq, amounts: entries[seq - 1] ?? ZERO_AMOUNTS, openJobs: seq === 4 ? [running('b')] : [] })

describe('a tenant that is compared with its journal', () => {
  it('is ahead of it by what its outbox has', async () => {
    const { behind, faults, journal } =
      await verdictOf(entries.slice(0, 2), { ...at(4), outbox: entries.slice(2) })
    expect([behind, faults, journal.seq]).toEqual([false, [], 4])
  })

  const wrong = { ...ZERO_AMOUNTS, availableMicros: 71, fundedMicros: 71 }
  it.each<readonly [string, readonly Journal[], Partial<WalletSnapshot>, unknown]>([
    ['balances that no entry explains', entries, { ...at(4), amounts: wrong },
      ['after movement 4 Redis has availableMicros 71, reservedMicros 0, chargedMicros 0, ' +
      'fundedMicros 71, the journal availableMicros 70, reservedMicros 20, chargedMicros 10, ' +
      'fundedMicros 100']],
    ['movements that the journal has lost', entries.slice(0, 3), at(4),
      expect.arrayContaining(['Redis has 4 movements, journal and outbox have 3'])],
    ['a gap', [entries[0]!, entries[2]!], at(1), ['entries 2 to 2 are missing before entry 3']],
    ['two entries with one number', [...entries, { ...entries[3]!, job: 'c' }], at(4),
      ['there are two entries with the number 4']],
    ['a job that runs and has reserved nothing', entries,
      { ...at(4), openJobs: [running('b'), running('x')] }, ['job x runs without a reservation']],
    ['such a job whose record is lost', entries,
      { ...at(4), openJobs: [running('b'), running('y', 'gone')] },
      ['job y runs without a reservation']],
  ])('is frozen for %s', async (_, written, wallet, faults) => {
    expect((await verdictOf(written, wallet)).faults).toEqual(faults)
  })

  it('is not frozen for jobs that settled, nor while operators trust the journal', async () => {
    const openJobs = [running('b'), running('x', 'ended'), running('y', 'settled')]
    expect((await verdictOf(entries, { ...at(4), openJobs })).faults).toEqual([])
    expect(await verdictOf(entries, { ...at(4), amounts: wrong, trustsJournal: true }))
      .toMatchObject({ behind: true, faults: [] })
  })
})

const FUNDED: Move = ['topup', '', 100]
const RESERVED: Move = ['reserve', 'job_1', 30]
const LAST: Move = ['adjust', '', 1]
const SETTLED: Move = ['settle', 'job_1', 30, 12]

/** What is reconstructed of a trusted journal of these movements, some of which are lost. */
const reconstruct = async (moves: readonly Move[], ...lost: readonly number[]) =>
  (await verdictOf(journalOf(moves).filter(({ seq }) => !lost.includes(seq)),
    { trustsJournal: true })).missing

describe('a lost entry of a journal that operators trust', () => {
  it.each([['topup', 50], ['adjust', -20]] as const)('is reconstructed if it is a %s',
    async (type, micros) => {
      expect(await reconstruct([FUNDED, [type, '', micros], RESERVED], 2)).toEqual([{
        tenant: TENANT,
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
      }])
    })

  it('is reconstructed if it is the end of the only job with that reservation', async () => {
    const moves: readonly Move[] = [FUNDED, RESERVED, ['reserve', 'job_2', 20], SETTLED, LAST]
    expect(await reconstruct(moves, 4)).toMatchObject([{
      entryId: 'job_1:settle',
      type: 'settle',
      job: 'job_1',
      amountMicros: 30,
      chargeMicros: 12,
      availableMicros: 68,
      reservedMicros: 20,
      chargedMicros: 12,
      fundedMicros: 100,
    }])
  })

  it.each<readonly [string, readonly Move[], readonly number[]]>([
    ['nothing is missing', [FUNDED, RESERVED], []],
    ['nothing came behind it', [FUNDED, RESERVED], [2]],
    ['there are two', [FUNDED, LAST, LAST, RESERVED], [2, 3]],
    ['it is a reservation', [FUNDED, RESERVED, LAST], [2]],
    ['it could be the end of either of two jobs',
      [FUNDED, RESERVED, ['reserve', 'job_2', 30], SETTLED, LAST], [4]],
    ['it moved nothing', [FUNDED, ['reserve', 'job_1', 0], LAST], [2]],
  ])('is not reconstructed when %s', async (_, moves, lost) => {
    expect(await reconstruct(moves, ...lost)).toEqual([])
  })
})
