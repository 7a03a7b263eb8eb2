import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { FatalError, InfrastructureError } from '../../../services/platform/errors.ts'
import type { Decision } from '../../../services/engine/stage.ts'
import { createLedgerStage } from '../../../services/ledger/stage.ts'
import type { CopiedKey } from '../../../services/jobs/job-key-copy.ts'
import { acceptedJob, DEAD, entryOf, incoming, TENANT } from '../../support/stage-doubles.ts'

const signal = new AbortController().signal

const entry = (seq: number, tenant = TENANT) => incoming('wallet.journal',
  { ...entryOf(tenant, acceptedJob()), seq }, { rows: () => undefined, offset: seq })

/** The stage on a copy in memory that can fail. */
function createWorld () {
  const stored: Journal[] = []
  let failing = false
  const append = async (entries: readonly Journal[]) => {
    if (failing) throw new Error('down')
    stored.push(...entries)
    return entries
  }
  const copied: CopiedKey[] = []
  const keys = { append: async (some: readonly CopiedKey[]) => { copied.push(...some) } }
  const stage = createLedgerStage({
    journal: { append }, keys, clock: { now: () => 0 }, batch: 10,
  })
  const finish = async (...entries: readonly ReturnType<typeof entry>[]) =>
    (await stage.decide(entries, signal) as readonly Decision<'ledger'>[])
      .flatMap(({ completes }) => completes.map(({ value }) => (value as Journal).seq))
  return { stage, stored, copied, finish, fail: (next: boolean) => { failing = next } }
}

describe('ledger', () => {
  it('copies entries of all tenants in one insert', async () => {
    const { stored, finish } = createWorld()
    expect(await finish(entry(2), entry(1), entry(1, 'b.live'))).toEqual([2, 1, 1])
    expect(stored.map(({ tenant, seq }) => [tenant, seq]))
      .toEqual([[TENANT, 2], [TENANT, 1], ['b.live', 1]])
  })

  it('copies entries after a gap at once, and missing ones when they arrive', async () => {
    const { stored, finish } = createWorld()
    expect(await finish(entry(1), entry(5))).toEqual([1, 5])
    expect(await finish(entry(6))).toEqual([6])
    expect(await finish(entry(2))).toEqual([2])
    expect(stored.map(({ seq }) => seq)).toEqual([1, 5, 6, 2])
  })

  it('fails the batch when the copy cannot be written', async () => {
    const { stored, finish, fail } = createWorld()
    fail(true)
    await expect(finish(entry(1))).rejects.toThrow(
      new InfrastructureError('insert of 1 journal entries into ClickHouse failed'))
    fail(false)
    expect(await finish(entry(1))).toEqual([1])
    expect(stored).toHaveLength(1)
  })

  it('fails fatally on an unreadable entry, and names its position', async () => {
    const source = { topic: 'wallet.journal', partition: 3, offset: 7n, reason: 'undecodable' }
    const failed = createWorld().stage.resolveDead({ tenant: TENANT }, source)
    await expect(failed).rejects.toThrow(FatalError)
    await expect(failed).rejects.toThrow('cannot decode wallet.journal[3] at offset 7 (tenant ' +
      `${TENANT}, undecodable): ledger stops`)
  })

  it('copies wrapped keys with their send time, and skips an unreadable one', async () => {
    const { stage, stored, copied } = createWorld()
    const value = { tenant: TENANT, job: 'job_1', wrapped: Buffer.of(1) }
    const message = incoming('job.keys', value, { rows: () => undefined, timestampMs: 7 })
    expect(await stage.decide([message], signal)).toEqual([{ completes: [message], emits: [] }])
    expect([stored, copied]).toEqual([[], [{ ...value, createdMs: 7 }]])
    expect(await stage.resolveDead({}, { ...DEAD, topic: 'job.keys' })).toEqual([])
  })
})
