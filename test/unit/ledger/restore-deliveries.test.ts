import { describe, expect, it } from 'vitest'
import type { Emission } from '../../../services/engine/stage.ts'
import type { Job } from '../../../services/jobs/job.ts'
import {
  recordDeliveries, restoreDeliveries,
} from '../../../services/ledger/restore-deliveries.ts'
import { endedJob } from '../../support/deliveries.ts'
import { endpointIdAt } from '../../support/endpoints.ts'

const NOW_MS = 10_000_000_000
const MINUTE_MS = 60_000
const { signal } = new AbortController()

type Call = readonly [command: string, text: string, keys: number, ...given: unknown[]]

/** Redis in a run, with the marks of the last restore. */
function setUp (
  { restoredIn = '', untilMs = '' }: { readonly restoredIn?: string, readonly untilMs?: string },
  jobs: readonly Job[] = []
) {
  const marks: unknown[][] = []
  const asked: number[] = []
  const emitted: Emission[] = []
  const deps = {
    redis: {
      call: async (...[, text, keys, ...given]: Call) => {
        if (given.length === keys) return ['r2', restoredIn || null, untilMs || null]
        marks.push(given.slice(keys))
        return text
      },
    } as never,
    archive: {
      endedSince: async function * (endedMs: number) {
        asked.push(endedMs)
        yield * jobs
      },
    },
    clock: { now: () => NOW_MS },
    log: { warn: () => {} },
    history: { listAll: async () => [] },
    subscriptions: async () =>
      [{ endpoint: endpointIdAt(1, 'one'), events: ['job.completed'] as const }],
    emitter: { emit: async (all: readonly Emission[]) => { emitted.push(...all) } },
  }
  return { deps, marks, asked, emitted }
}

describe('deliveries', () => {
  it('are not restored twice in one run of their server', async () => {
    const { deps, asked, marks } = setUp({ restoredIn: 'r2', untilMs: '1' })
    expect(await restoreDeliveries(deps, signal)).toBe(0)
    expect([asked, marks]).toEqual([[], []])
  })

  it('are restored of jobs that ended since Redis had all of them, and before for a while',
    async () => {
      const { deps, asked, marks } = setUp({ restoredIn: 'r1', untilMs: String(NOW_MS - 1) })
      await restoreDeliveries(deps, signal)
      expect(asked).toEqual([NOW_MS - 1 - 10 * MINUTE_MS])
      expect(marks).toEqual([['r2', NOW_MS]])
    })

  it('are restored of the last four days after a loss of everything', async () => {
    const { deps, asked } = setUp({})
    await restoreDeliveries(deps, signal)
    expect(asked).toEqual([NOW_MS - 4 * 24 * 60 * MINUTE_MS])
  })

  it('of a feed go to webhook endpoints, and its results not to the partner again', async () => {
    const feed = { partner: 'acme', partition: 0 } as NonNullable<Job['feed']>
    const { deps, emitted } = setUp({}, [
      endedJob({ id: 'job_1', header: Buffer.from('h') }), endedJob({ id: 'job_2', feed }),
    ])
    expect(await restoreDeliveries(deps, signal)).toBe(2)
    expect(emitted.map(({ topic, value }) => [topic, value])).toEqual([
      ['jobs.settled', expect.objectContaining({ job: 'job_1' })],
      ['jobs.events', {
        tenant: endedJob().tenant,
        job: 'job_2',
        type: 'job.completed',
        tenth: 0,
        at: endedJob().endedAtMs,
      }],
    ])
  })

  it('are recorded as complete by a mark that a run without a restore does not get', async () => {
    const { deps, marks } = setUp({})
    await recordDeliveries(deps)
    expect(marks).toEqual([['', NOW_MS]])
  })
})
