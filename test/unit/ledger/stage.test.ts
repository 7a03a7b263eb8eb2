import { describe, expect, it } from 'vitest'
import { FatalError, InfrastructureError } from '../../../services/lib/errors.ts'
import type { Decision } from '../../../services/lib/stage.ts'
import { createLedgerStage } from '../../../services/ledger/stage.ts'
import { START, type ChainHead, type Link } from '../../../services/records/journal-chain.ts'
import { entryOf, incoming, TENANT, acceptedJob } from '../../support/stage-doubles.ts'

const signal = new AbortController().signal

const entry = (seq: number, tenant = TENANT) => incoming('wallet.journal',
  { ...entryOf(tenant, acceptedJob()), seq }, { rows: () => undefined, offset: seq })

/** A copy in memory that, like the real one, knows no more than what was appended. */
function createCopy () {
  const stored: Link[] = []
  const asked: (readonly string[])[] = []
  let failing = false
  const journal = {
    heads: async (tenants: readonly string[]) => {
      asked.push(tenants)
      const ends = new Map<string, ChainHead>()
      for (const { entry: { tenant, seq }, hash } of stored) {
        if (tenants.includes(tenant)) ends.set(tenant, { seq, hash })
      }
      return ends
    },
    append: async (links: readonly Link[]) => {
      if (failing) throw new Error('down')
      stored.push(...links)
    },
  }
  return { journal, stored, asked, fail: (next: boolean) => { failing = next } }
}

const seqsOf = (links: readonly Link[]) => links.map(link => [link.entry.tenant, link.entry.seq])
const finished = (decisions: readonly object[]) =>
  (decisions as readonly Decision<'ledger'>[]).flatMap(({ finishes }) =>
    finishes.map(({ value }) => value.seq))

describe('ledger', () => {
  it('chains the entries of each tenant, in order, and asks for a head once', async () => {
    const { journal, stored, asked } = createCopy()
    const stage = createLedgerStage({ journal, batch: 10 })
    const decisions = await stage.decide([entry(2), entry(1), entry(1, 'b.live')], signal)
    expect(seqsOf(stored)).toEqual([[TENANT, 1], [TENANT, 2], ['b.live', 1]])
    expect(stored[0]?.prev).toBe(START.hash)
    expect(stored[1]?.prev).toBe(stored[0]?.hash)
    expect(stored[2]?.prev).toBe(START.hash)
    expect(finished(decisions)).toEqual([2, 1, 1])
    await stage.decide([entry(3)], signal)
    expect(asked).toEqual([[TENANT, 'b.live'], []])
  })

  it('goes on where it is, though an old entry comes by another partition meanwhile', async () => {
    const { journal, stored } = createCopy()
    const stage = createLedgerStage({ journal, batch: 10 })
    await stage.decide([entry(1)], signal)
    await Promise.all([stage.decide([entry(2)], signal), stage.decide([entry(1)], signal)])
    await stage.decide([entry(3)], signal)
    expect(seqsOf(stored)).toEqual([1, 2, 3].map(seq => [TENANT, seq]))
  })

  it('skips what it has and finishes it', async () => {
    const { journal, stored } = createCopy()
    const stage = createLedgerStage({ journal, batch: 10 })
    await stage.decide([entry(1), entry(2)], signal)
    expect(finished(await stage.decide([entry(2), entry(1)], signal))).toEqual([2, 1])
    expect(stored).toHaveLength(2)
  })

  it('holds entries behind a gap until the missing one comes', async () => {
    const { journal, stored } = createCopy()
    const stage = createLedgerStage({ journal, batch: 10 })
    expect(finished(await stage.decide([entry(1), entry(3)], signal))).toEqual([1])
    expect(await stage.decide([entry(4)], signal)).toEqual([])
    expect(finished(await stage.decide([entry(2)], signal))).toEqual([3, 4, 2])
    expect(seqsOf(stored).map(([, seq]) => seq)).toEqual([1, 2, 3, 4])
  })

  it('reads heads anew after it forgot, and drops what it held', async () => {
    const { journal, stored, asked } = createCopy()
    const stage = createLedgerStage({ journal, batch: 10 })
    await stage.decide([entry(1), entry(3)], signal)
    stage.forget()
    expect(finished(await stage.decide([entry(2)], signal))).toEqual([2])
    expect(finished(await stage.decide([entry(3)], signal))).toEqual([3])
    expect(asked).toEqual([[TENANT], [TENANT], []])
    expect(stored).toHaveLength(3)
  })

  it('moves nothing when the copy could not be written', async () => {
    const { journal, stored, fail } = createCopy()
    const stage = createLedgerStage({ journal, batch: 10 })
    fail(true)
    await expect(stage.decide([entry(1)], signal)).rejects.toThrow(InfrastructureError)
    fail(false)
    expect(finished(await stage.decide([entry(1)], signal))).toEqual([1])
    expect(seqsOf(stored)).toEqual([[TENANT, 1]])
  })

  it('stops for good rather than leave an entry out', async () => {
    const stage = createLedgerStage({ journal: createCopy().journal, batch: 10 })
    await expect(stage.whenDead({})).rejects.toThrow(FatalError)
  })
})
