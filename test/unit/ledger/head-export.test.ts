import { describe, expect, it, vi } from 'vitest'
import { createMetrics } from '../../../services/lib/metrics.ts'
import { startExporting } from '../../../services/ledger/head-export.ts'
import { createHeadsCodec, type JournalHeads } from '../../../services/records/journal-heads.ts'
import { eventually } from '../../support/eventually.ts'
import { messageKeysOf } from '../../support/signed.ts'

const DAY_MS = 86_400_000
const NOW_MS = 100 * DAY_MS
const codec = createHeadsCodec(messageKeysOf())

/** An export that does not run in the background: what a round does is awaited. */
function exporting ({ leads = true, everyMs = DAY_MS, exportedAt = '', tenants = 2 } = {}) {
  const kept = new Map(exportedAt === '' ? [] : [['{ledger}:head-exported-at', exportedAt]])
  const names = Array.from({ length: tenants }, (_, index) => `org_${index}.live`)
  const exported: (JournalHeads | undefined)[] = []
  const asked: number[] = []
  const [target, error] = [vi.fn(async (line: string) => {
    exported.push(codec.decode(line))
  }), vi.fn()]
  const metrics = createMetrics()
  const parts = {
    leads: vi.fn(() => leads),
    everyMs,
    codec,
    target,
    metrics,
    clock: { now: () => NOW_MS },
    log: { info: vi.fn(), error },
    tenants: { all: async () => names.toReversed() },
    redis: {
      get: async (key: string) => kept.get(key) ?? null,
      set: async (key: string, value: number) => { kept.set(key, String(value)) },
    },
    journal: {
      heads: async (some: readonly string[]) => {
        asked.push(some.length)
        return new Map(some.filter(name => name !== 'org_1.live')
          .map(name => [name, { seq: 3, hash: `hash of ${name}` }]))
      },
    },
  }
  const { stop } = startExporting(parts as never)
  const age = async () =>
    /^journal_head_age_intervals (.+)$/m.exec(await metrics.text())?.[1]
  return { parts, kept, exported, asked, target, error, age, stop }
}

describe('the export of the heads of the journal', () => {
  it('has the heads of all tenants of whom there are entries, and notes its time', async () => {
    const { kept, exported, stop, age } = exporting()
    await eventually(() => expect(kept.size).toBe(1))
    await stop()
    expect(exported).toMatchObject([
      { at: NOW_MS, tenants: [{ tenant: 'org_0.live', seq: 3, hash: 'hash of org_0.live' }] },
    ])
    expect(kept.get('{ledger}:head-exported-at')).toBe(String(NOW_MS))
    expect(await age()).toBe('0')
  })

  it('asks for a bounded number of tenants at once', async () => {
    const { exported, asked, kept, stop } = exporting({ tenants: 1_201 })
    await eventually(() => expect(kept.size).toBe(1))
    await stop()
    expect(asked).toEqual([500, 500, 201])
    expect(exported[0]?.tenants).toHaveLength(1_200)
  })

  it('is not made before its time, also by a process that has just started', async () => {
    const { target, age, stop } = exporting({ exportedAt: String(NOW_MS - DAY_MS + 1) })
    await eventually(async () => expect(Number(await age())).toBeCloseTo(1))
    await stop()
    expect(target).not.toHaveBeenCalled()
    const due = exporting({ exportedAt: String(NOW_MS - DAY_MS) })
    await eventually(() => expect(due.target).toHaveBeenCalledOnce())
    await due.stop()
  })

  it('is made by the ledger that leads alone, and so is what is told of it', async () => {
    const { parts, target, age, stop } = exporting({ leads: false, everyMs: 1 })
    await eventually(() => expect(parts.leads.mock.calls.length).toBeGreaterThan(10))
    await stop()
    expect(target).not.toHaveBeenCalled()
    expect(await age()).toBeUndefined()
  })

  it('is tried again when it fails; how long there is none is told', async () => {
    let failures = 2
    const { parts, target, error, kept, stop } = exporting({ everyMs: 1 })
    const works = target.getMockImplementation()!
    target.mockImplementation(async line => {
      if (failures-- > 0) throw new Error('no space left')
      await works(line)
    })
    await eventually(() => expect(error).toHaveBeenCalledTimes(2))
    expect(error.mock.calls[0]).toEqual([
      { err: new Error('no space left') }, expect.stringContaining('JOURNAL_HEAD_TARGET'),
    ])
    await eventually(() => expect(kept.size).toBe(1))
    expect(parts.log.info).toHaveBeenCalledWith({ tenants: 1 }, 'journal head exported')
    await stop()
    const never = exporting()
    never.target.mockRejectedValue(new Error('no space left'))
    await eventually(async () => expect(await never.age()).toBe('100'))
    await never.stop()
  })

  it('that is under way when the process ends is ended, and nothing is logged of it', async () => {
    const { target, error, stop } = exporting()
    target.mockImplementation((_line, signal?: AbortSignal) => new Promise((_resolve, reject) =>
      signal?.addEventListener('abort', () => reject(signal.reason))) as never)
    await eventually(() => expect(target).toHaveBeenCalledOnce())
    await stop()
    expect(error).not.toHaveBeenCalled()
  })
})
