import { expect, it } from 'vitest'
import { restoreKeys } from '../../../services/ledger/restore-keys.ts'
import { ACCEPTED_KEY_MS } from '../../../services/jobs/job-keys.ts'
import { codec } from '../../support/results.ts'
import { createManualClock } from '../../support/stage-doubles.ts'

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
