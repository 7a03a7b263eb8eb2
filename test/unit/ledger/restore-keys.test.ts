import { expect, it } from 'vitest'
import { restoreKeys, reErase } from '../../../services/ledger/restore-keys.ts'
import { ACCEPTED_KEY_MS } from '../../../services/jobs/job-keys.ts'
import { codec } from '../../support/clickhouse/results.ts'
import { createManualClock } from '../../support/stage-doubles.ts'
import { globalKey } from '../../../services/runtime/platform/redis.ts'

const { signal } = new AbortController()

/** A topic with a key of each of these jobs; the commands to Redis are recorded. */
function setUp (jobs: readonly string[], nowMs: number, erased = '') {
  const [calls, read, counted]: [unknown[], string[], unknown[]] = [[], [], []]
  const parts = {
    redis: {
      set: async (...given: unknown[]) => { calls.push(['set', ...given.map(String)]) },
      pexpire: async (...given: unknown[]) => { calls.push(['pexpire', ...given.map(String)]) },
      exists: async (key: string) => key === erased ? 1 : 0,
      del: async (...given: unknown[]) => { calls.push(['del', ...given.map(String)]) },
    } as never,
    reader: {
      read: async (topic: string, onMessages: (messages: never) => unknown) => {
        read.push(topic)
        const messages = jobs.map(async job => ({
          key: Buffer.from(job),
          value: await codec.encode('job.keys-value', {
            job, tenant: 'a.live', wrapped: Buffer.from(`key of ${job}`),
          }),
        }))
        await onMessages(await Promise.all(messages) as never)
        return new Map()
      },
    },
    codec,
    clock: createManualClock(nowMs),
    metrics: { count: (...given: unknown[]) => { counted.push(given) } },
  }
  return { parts, calls, read, counted }
}

it('restoreKeys does not read the topic when no key is missing', async () => {
  const { parts, read } = setUp(['job_1'], 0)
  await restoreKeys(parts, new Map(), signal)
  expect(read).toEqual([])
})

it('restoreKeys restores keys with their remaining time, and no expired ones', async () => {
  const { parts, calls, read, counted } = setUp(['job_1', 'job_2', 'job_x'], ACCEPTED_KEY_MS + 500)
  const lacking = new Map([
    ['job_1', { tenant: 'a.live', atMs: 700 }], ['job_2', { tenant: 'a.live', atMs: 500 }],
    ['job_3', { tenant: 'a.live', atMs: 700 }],
  ])
  await restoreKeys(parts, lacking, signal)
  expect(read).toEqual(['job.keys'])
  expect(calls).toEqual([
    ['set', 'dek:{a}.live:job_1', 'key of job_1', 'PX', '200', 'NX'],
    ['pexpire', 'dek:{a}.live:job_1', '200', 'GT'],
  ])
  expect(counted).toEqual([['recovery_actions_total', { kind: 'key' }, 1]])
})

it('restoreKeys deletes the key of a job that is erased meanwhile', async () => {
  const { parts, calls, counted } = setUp(['job_1'], 0, 'erased:{a}.live:job_1')
  await restoreKeys(parts, new Map([['job_1', { tenant: 'a.live', atMs: 0 }]]), signal)
  expect(calls.at(-1)).toEqual(['del', 'dek:{a}.live:job_1'])
  expect(counted).toEqual([['recovery_actions_total', { kind: 'key' }, 0]])
})

type Message = readonly [
  job: string, value: string | null, atMs?: number, tenant?: string,
  headers?: Readonly<Record<string, string>>
]

/** A topic of these messages; the commands to Redis are recorded. */
function erasedJobs (
  messages: readonly Message[],
  { nowMs = 0, run = '', until = null as string | null, doneJobs = [] as string[] } = {}
) {
  const [calls, read, counted]: [string[], string[], unknown[]] = [[], [], []]
  let erasedIn = run
  const parts = {
    servers: async () =>
      [{ address: '', run: 'r2', keyOf: globalKey, has: () => true }],
    redis: {
      get: async (key: string) => {
        const isDone = doneJobs.some(job => key.endsWith(job))
        if (key.startsWith('erased:')) return isDone ? 'done:1' : '1'
        return key.endsWith('in') ? erasedIn : until
      },
      zadd: async (...given: unknown[]) => { calls.push(['zadd', ...given].join(' ')) },
      set: async (...given: unknown[]) => {
        calls.push(['set', ...given].join(' '))
        if (String(given[0]).endsWith('in')) erasedIn = String(given[1])
      },
      del: async (key: string) => calls.push(`del ${key}`) > 0 ? 1 : 0,
    } as never,
    reader: {
      read: async (
        topic: string, onMessages: (messages: never) => unknown, limits?: { sinceMs?: number }
      ) => {
        read.push(`${topic} since ${limits?.sinceMs}`)
        await onMessages(messages.map(([job, value, timestampMs = 0, tenant = 'a.live', more]) => ({
          key: Buffer.from(job),
          value: value === null ? null : Buffer.from(value),
          headers: tenant === '' ? {} : { tenant, ...more },
          timestampMs,
        })) as never)
        return new Map()
      },
    },
    clock: createManualClock(nowMs),
    log: { warn: () => {} },
    metrics: { count: (...given: unknown[]) => { counted.push(given) } },
  }
  return { parts, calls, read, counted }
}

const done = ['set {global}:erased-in r2', 'set {global}:erased-until 1000']

it('reErase marks and then erases jobs whose key was erased in the topic', async () => {
  const { parts, calls, counted } = erasedJobs([
    ['job_1', 'key'], ['job_2', 'key'], ['job_1', null, 600], ['job_3', null], ['job_3', 'key'],
    ['job_4', null, 0, ''],
  ], { nowMs: 1_000, run: 'r1' })
  await reErase(parts, signal)
  expect(calls).toEqual([
    `set erased:{a}.live:job_1 1 PXAT ${ACCEPTED_KEY_MS + 600} NX`,
    'zadd erasures:requested 600 a.live job_1', 'del dek:{a}.live:job_1',
    // A key after its erasure is a repeated old message.
    `set erased:{a}.live:job_3 1 PXAT ${ACCEPTED_KEY_MS} NX`,
    'zadd erasures:requested 0 a.live job_3', 'del dek:{a}.live:job_3',
    ...done,
  ])
  expect(counted).toEqual([['recovery_actions_total', { kind: 'erasure' }, 2]])
})

it('reErase takes time and cache of an erasure from its first tombstone', async () => {
  const terms = { erased_at: '300', erase_cache: '1' }
  const { parts, calls } = erasedJobs([
    ['job_1', null, 400, 'a.live', terms], ['job_1', null, 600], ['job_2', null, 700],
  ], { nowMs: 1_000, run: 'r1', doneJobs: ['job_2'] })
  await reErase(parts, signal)
  expect(calls).toEqual([
    `set erased:{a}.live:job_1 1 PXAT ${ACCEPTED_KEY_MS + 300} NX`,
    'zadd erasures:requested 300 a.live job_1 cache', 'del dek:{a}.live:job_1',
    // Complete: no copy of its key is left.
    `set erased:{a}.live:job_2 1 PXAT ${ACCEPTED_KEY_MS + 700} NX`, 'del dek:{a}.live:job_2',
    ...done,
  ])
})

it('reErase sets no mark once the results have expired', async () => {
  const { parts, calls } = erasedJobs([['job_1', null, 0]], { nowMs: ACCEPTED_KEY_MS })
  await reErase(parts, signal)
  expect(calls.slice(0, 2)).toEqual(['del dek:{a}.live:job_1', done[0]])
})

it('reErase reads the topic from the time up to which Redis had all erasures', async () => {
  const { parts, read } = erasedJobs([], { until: '700' })
  await reErase(parts, signal)
  expect(read).toEqual(['job.keys since 700'])
})

it('reErase reads the topic once per run of the server', async () => {
  const { parts, calls, read } = erasedJobs([['job_1', null]], { run: 'r2' })
  await reErase(parts, signal)
  expect([calls, read]).toEqual([[], []])
})
