import { describe, expect, it } from 'vitest'
import { repairKeys } from '../../../services/ledger/restore-keys.ts'
import { ACCEPTED_KEY_MS } from '../../../services/jobs/job-keys.ts'
import { codec } from '../../support/clickhouse/results.ts'
import { createManualClock } from '../../support/stage-messages.ts'
import { globalKey } from '../../../services/runtime/platform/redis.ts'

type Message = {
  readonly job: string
  /** Of a tombstone; otherwise the message has a key. */
  readonly erasedMs?: number
  readonly headers?: Readonly<Record<string, string>>
}

type State = {
  readonly nowMs?: number
  /** The run of the server in which erased jobs were last erased again, and until when. */
  readonly run?: string
  readonly until?: string | null
  /** The jobs that Redis marks as erased. */
  readonly erased?: readonly string[]
  readonly missing?: Readonly<Record<string, number>>
}

/** Repairs keys from a topic; returns the commands that change Redis, and what was read. */
async function repair (
  messages: readonly Message[],
  { nowMs = 1_000, run = 'r2', until = null, erased = [], missing = {} }: State = {}
) {
  const [calls, read, counted]: [string[], string[], unknown[]] = [[], [], []]
  let erasedIn = run
  const isErased = (key: string) => erased.some(job => key.endsWith(job))
  const note = async (...given: unknown[]) => calls.push(given.map(String).join(' '))
  await repairKeys({
    servers: async () => [{ address: '', run: 'r2', keyOf: globalKey, has: () => true }],
    redis: {
      get: async (key: string) => {
        if (key.startsWith('erased:')) return isErased(key) ? 'done:1' : '1'
        return key.endsWith('in') ? erasedIn : until
      },
      set: async (key: string, ...given: unknown[]) => {
        await note('set', key, ...given)
        if (key.endsWith('in')) erasedIn = String(given[0])
      },
      exists: async (key: string) => isErased(key) ? 1 : 0,
      pexpire: (...given: unknown[]) => note('pexpire', ...given),
      zadd: (...given: unknown[]) => note('zadd', ...given),
      del: async (key: string) => await note('del', key) > 0 ? 1 : 0,
    } as never,
    reader: {
      read: async (topic: string, onMessages: (some: never) => unknown, limits = {}) => {
        read.push(`${topic} since ${(limits as { sinceMs?: number }).sinceMs}`)
        await onMessages(await Promise.all(messages.map(async ({ job, erasedMs, headers }) => ({
          key: Buffer.from(job),
          value: erasedMs !== undefined
            ? null
            : await codec.encode('job.keys-value', {
              job, tenant: 'a.live', wrapped: Buffer.from(`key of ${job}`),
            }),
          headers: headers ?? { tenant: 'a.live' },
          timestampMs: erasedMs ?? 0,
        }))) as never)
        return new Map()
      },
    },
    codec,
    clock: createManualClock(nowMs),
    log: { warn: () => {} },
    metrics: { count: (...given: unknown[]) => { counted.push(given) } },
  }, new Map(Object.entries(missing).map(([job, atMs]) =>
    [job, { tenant: 'a.live', atMs }] as const)), new AbortController().signal)
  return { calls, read, counted }
}

describe('missing keys', () => {
  it('are restored with their remaining time, expired ones not', async () => {
    const { calls, read, counted } = await repair(
      ['job_1', 'job_2', 'job_x'].map(job => ({ job })),
      { nowMs: ACCEPTED_KEY_MS + 500, missing: { job_1: 700, job_2: 500, job_3: 700 } })
    expect(read).toEqual(['job.keys since 500'])
    expect(calls).toEqual([
      'set dek:{a}.live:job_1 key of job_1 PX 200 NX', 'pexpire dek:{a}.live:job_1 200 GT',
    ])
    expect(counted).toEqual([['recovery_actions_total', { kind: 'key' }, 1]])
  })

  it('of a job that is erased meanwhile are deleted', async () => {
    const { calls, counted } =
      await repair([{ job: 'job_1' }], { nowMs: 0, erased: ['job_1'], missing: { job_1: 0 } })
    expect(calls.at(-1)).toBe('del dek:{a}.live:job_1')
    expect(counted).toEqual([['recovery_actions_total', { kind: 'key' }, 0]])
  })
})

describe('erased jobs', () => {
  const done = ['set {global}:erased-in r2', 'set {global}:erased-until 1000']

  it('are marked, queued and then erased in a new run of the server', async () => {
    const { calls, counted } = await repair([
      { job: 'job_1' }, { job: 'job_2' }, { job: 'job_1', erasedMs: 600 },
      // A key after its erasure is a repeated old message.
      { job: 'job_3', erasedMs: 0 }, { job: 'job_3' },
      { job: 'job_4', erasedMs: 0, headers: {} },
    ], { run: 'r1' })
    expect(calls).toEqual([
      `set erased:{a}.live:job_1 1 PXAT ${ACCEPTED_KEY_MS + 600} NX`,
      'zadd erasures:requested 600 a.live job_1', 'del dek:{a}.live:job_1',
      `set erased:{a}.live:job_3 1 PXAT ${ACCEPTED_KEY_MS} NX`,
      'zadd erasures:requested 0 a.live job_3', 'del dek:{a}.live:job_3',
      ...done,
    ])
    expect(counted).toEqual([['recovery_actions_total', { kind: 'erasure' }, 2]])
  })

  it('have the time and cache of their first tombstone', async () => {
    const headers = { tenant: 'a.live', erased_at: '300', erase_cache: '1' }
    const { calls } = await repair([
      { job: 'job_1', erasedMs: 400, headers }, { job: 'job_1', erasedMs: 600 },
      { job: 'job_2', erasedMs: 700 },
    ], { run: 'r1', erased: ['job_2'] })
    expect(calls).toEqual([
      `set erased:{a}.live:job_1 1 PXAT ${ACCEPTED_KEY_MS + 300} NX`,
      'zadd erasures:requested 300 a.live job_1 cache', 'del dek:{a}.live:job_1',
      // Complete: no copy of its key is left.
      `set erased:{a}.live:job_2 1 PXAT ${ACCEPTED_KEY_MS + 700} NX`, 'del dek:{a}.live:job_2',
      ...done,
    ])
  })

  it('get no mark once their results have expired', async () => {
    const { calls } =
      await repair([{ job: 'job_1', erasedMs: 0 }], { nowMs: ACCEPTED_KEY_MS, run: 'r1' })
    expect(calls.slice(0, 2)).toEqual(['del dek:{a}.live:job_1', done[0]])
  })

  it('are read from the time up to which Redis had all erasures', async () => {
    expect((await repair([], { run: 'r1', until: '700' })).read).toEqual(['job.keys since 700'])
  })
})
