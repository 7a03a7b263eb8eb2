import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import type { NumberedEntry } from '../../../services/accounts/access-log/access-log.ts'
import { FatalError, InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import type { Decision } from '../../../services/runtime/engine/stage.ts'
import { createLedgerStage, openCopies } from '../../../services/ledger/main.ts'
import type { CopiedKey } from '../../../services/jobs/wrapped-keys.ts'
import { accessEntry } from '../../support/access.ts'
import { acceptedJob, DEAD, entryOf, incoming, TENANT } from '../../support/stage-messages.ts'
import { createAccessCopy } from '../../../services/accounts/access-log/copy.ts'
import { recordMacOf } from '../../support/keys/signed.ts'
import { createClickhouseDouble } from '../../support/clickhouse/stored.ts'

const signal = new AbortController().signal

const entry = (seq: number, tenant = TENANT) => incoming('wallet.journal',
  { ...entryOf(tenant, acceptedJob()), seq }, { rows: () => undefined, offset: seq })

const PARTITION = { topic: 'wallet.journal', partition: 0 }

/** The stage on a copy in memory that can fail; the clock starts at 0. */
function createWorld (batch = 10) {
  const inserts: (readonly Journal[])[] = []
  let failing = false
  let now = 0
  const append = async (entries: readonly Journal[]) => {
    if (failing) throw new Error('down')
    inserts.push(entries)
  }
  const copied: CopiedKey[] = []
  const keys = { append: async (some: readonly CopiedKey[]) => { copied.push(...some) } }
  const actions: NumberedEntry[] = []
  const stage = createLedgerStage({
    journal: { append },
    keys,
    access: { append: async entries => { actions.push(...entries) } },
    clock: { now: () => now },
    batch,
    copyAfterMs: 2_000,
  })
  const seqsOf = (decisions: readonly Decision<'ledger'>[]) => decisions
    .flatMap(({ completes }) => completes.map(({ value }) => (value as Journal).seq))
  const decide = async (...entries: readonly ReturnType<typeof entry>[]) =>
    seqsOf(await stage.decide(entries, signal) as readonly Decision<'ledger'>[])
  const flush = async (atMs: number, partition = PARTITION) => {
    now = atMs
    return seqsOf(await stage.flushHeld?.(partition) ?? [])
  }
  const fail = (next: boolean) => { failing = next }
  return { stage, inserts, copied, actions, decide, flush, fail }
}

const idsOf = (inserts: readonly (readonly Journal[])[]) =>
  inserts.map(entries => entries.map(({ tenant, seq }) => `${tenant} ${seq}`))

describe('ledger', () => {
  it('copies entries of all tenants that arrive within COPY_AFTER_MS in one insert', async () => {
    const { inserts, decide, flush } = createWorld()
    expect(await decide(entry(2), entry(1))).toEqual([])
    expect(await flush(1_999)).toEqual([])
    expect(await decide(entry(3, 'b.live'))).toEqual([])
    expect(inserts).toEqual([])
    expect(await flush(2_000)).toEqual([2, 1, 3])
    expect(idsOf(inserts)).toEqual([[`${TENANT} 2`, `${TENANT} 1`, 'b.live 3']])
    expect(await flush(9_000)).toEqual([])
  })

  it('holds entries until they are stored, and drops them with their generation', async () => {
    const { stage, inserts, decide, flush, fail } = createWorld()
    await decide(entry(1))
    fail(true)
    await expect(flush(2_000)).rejects.toThrow(
      new InfrastructureError('insert of 1 journal entries into ClickHouse failed'))
    fail(false)
    expect(await flush(2_000)).toEqual([1])
    await decide(entry(2))
    stage.forget()
    expect(await flush(9_000)).toEqual([])
    expect(inserts).toHaveLength(1)
  })

  it('emits the events of a reservation before it is copied, and not after a week', async () => {
    const { stage, inserts } = createWorld()
    const reserve = (at: number) => incoming('wallet.journal', {
      ...entryOf(TENANT, acceptedJob()),
      type: 'reserve',
      at,
      reason: JSON.stringify({ lane: 'small', events: 'job.accepted' }),
    }, { rows: () => undefined, offset: 1 })
    const [decision] = await stage.decide([reserve(0)], signal)
    expect(decision).toMatchObject({
      completes: [], emits: [{ topic: 'jobs.events', value: { type: 'job.accepted' } }],
    })
    expect(inserts).toEqual([])
    expect(await stage.decide([reserve(-8 * 86_400_000)], signal)).toMatchObject([{ emits: [] }])
  })

  it('fails fatally on an unreadable entry, and names its position', async () => {
    const source = { topic: 'wallet.journal', partition: 3, offset: 7n, reason: 'undecodable' }
    const failed = createWorld().stage.resolveDead({ tenant: TENANT }, source)
    await expect(failed).rejects.toThrow(FatalError)
    await expect(failed).rejects.toThrow('cannot decode wallet.journal[3] at offset 7 (tenant ' +
      `${TENANT}, undecodable): ledger stops`)
  })

  it('copies wrapped keys with their send time, and skips an unreadable one', async () => {
    const { stage, inserts, copied } = createWorld(1)
    const value = { tenant: TENANT, job: 'job_1', wrapped: Buffer.of(1) }
    const message = incoming('job.keys', value, { rows: () => undefined, timestampMs: 7 })
    expect(await stage.decide([message], signal)).toEqual([{ completes: [message], emits: [] }])
    expect([inserts, copied]).toEqual([[], [{ ...value, createdMs: 7 }]])
    expect(await stage.resolveDead({}, { ...DEAD, topic: 'job.keys' })).toEqual([])
  })

  it('copies the access log, numbered by position, and fails on an unreadable entry', async () => {
    const { stage, inserts, actions } = createWorld(1)
    const { seq, ...value } = accessEntry({ seq: 8 })
    const message = incoming('access.log', value, { rows: () => undefined, offset: 7 })
    expect(await stage.decide([message], signal)).toEqual([{ completes: [message], emits: [] }])
    expect([inserts, actions]).toEqual([[], [{ ...value, seq }]])
    await expect(stage.resolveDead({}, { ...DEAD, topic: 'access.log' })).rejects
      .toThrow(FatalError)
  })
})

it('the copy to ClickHouse ' +
  'has one insert for the partitions of a topic that are due together', async () => {
  const { clickhouse, inserted, tokens } = createClickhouseDouble()
  const appended: number[] = []
  const heads: (readonly [seq: number, rows: number])[] = []
  const { journal, keys, access } = openCopies({
    journal: { append: async (entries: readonly Journal[]) => { appended.push(entries.length) } },
    clickhouse,
    recordMac: recordMacOf(),
    accessCopy: createAccessCopy(clickhouse, recordMacOf()),
    accessHead: { advance: async seq => { heads.push([seq, inserted.length]) } },
  })
  const entry = entryOf(TENANT, acceptedJob())
  await Promise.all([journal.append([entry]), journal.append([entry, entry])])
  const key = (job: string) => ({ tenant: TENANT, job, wrapped: Buffer.of(1), createdMs: 0 })
  await Promise.all([keys.append([key('job_1')]), keys.append([key('job_2')])])
  expect(appended).toEqual([3])
  expect([tokens.length, inserted.map(({ job }) => job)]).toEqual([1, ['job_1', 'job_2']])
  await access.append([accessEntry({ seq: 8 }), accessEntry({ seq: 9 }), accessEntry({ seq: 7 })])
  expect(inserted.slice(2)).toMatchObject([{ seq: 8 }, { seq: 9 }, { seq: 7 }])
  // Only then their highest number.
  expect(heads).toEqual([[9, 5]])
})
