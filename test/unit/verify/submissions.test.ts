import { describe, expect, it } from 'vitest'
import type { VerificationBatch } from '../../../services/verify/batch.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { VendorSubmission } from '../../../services/verify/provider.ts'
import { redisSubmissions, TasksInFlight } from '../../../services/verify/submissions.ts'
import { createHashesDouble, MESSAGE_KEYS } from '../../support/batch-stage.ts'
import { createManualClock, batchOf, JOB } from '../../support/stage-messages.ts'

const terms = { provider: 107, pollMs: 15_000, deadlineMs: Date.UTC(2026, 7, 12) }
const PHONES = ['+12127365000', '+12127365001', '+12127365002']
const batchFrom = (contacts = PHONES, more: object = {}): VerificationBatch => {
  const { value, rows } = batchOf(contacts, { service: 'whatsapp' })
  return { value: { ...value, ...more }, rows: rows() }
}

function setUp (settings = MESSAGE_KEYS) {
  const hashes = createHashesDouble()
  const clock = createManualClock()
  return { ...hashes, clock, open: redisSubmissions(hashes.redis, { ...settings, clock }) }
}

describe('the submissions of a batch', () => {
  it('are found by rows in later attempts, in which the batch has fewer of them', async () => {
    const { open } = setUp()
    const first = await open(batchFrom())
    const submission = await first.begin([1, 2], terms)
    await first.accept(submission, 'tsk_1')
    expect([0, 1, 2].map((row) => first.of(row)?.task)).toEqual([undefined, 'tsk_1', 'tsk_1'])
    const all = batchFrom()
    const rest = { ...all, rows: { ...all.rows, rows: all.rows.rows.slice(2) } }
    expect((await open(rest)).of(0)).toMatchObject({ ...terms, task: 'tsk_1' })
  })

  it('have a reference of batch, provider and rows, the same in every attempt', async () => {
    const referenceOf = async (
      more: object = {}, rows: readonly number[] = [0, 1], provider = 107
    ) => (await (await setUp().open(batchFrom(PHONES, more))).begin(rows, { ...terms, provider }))
      .reference
    const reference = await referenceOf()
    expect(await referenceOf({ attempt: 3 })).toBe(reference)
    const others = await Promise.all([
      referenceOf({ job: `${JOB}2` }), referenceOf({ chunk: 1 }), referenceOf({ batch: 1 }),
      referenceOf({}, [0]), referenceOf({}, [0, 1], 108),
    ])
    expect(new Set([reference, ...others]).size).toBe(6)
  })

  it('are forgotten once the vendor has refused them', async () => {
    const { open, hashes } = setUp()
    const submissions = await open(batchFrom())
    await submissions.drop(await submissions.begin([0], terms))
    expect(submissions.of(0)).toBeUndefined()
    expect([...hashes.values()].map((fields) => fields.size)).toEqual([0])
  })

  it('are sealed for their batch, and kept as long as it can be delivered again', async () => {
    const { open, hashes, expiries } = setUp()
    const submissions = await open(batchFrom())
    await submissions.accept(await submissions.begin([0], terms), 'tsk_secret')
    const [[key, fields]] = [...hashes] as [[string, Map<string, Buffer>]]
    expect(key).toBe(`submissions:{org_1}.live:${JOB}:0:0`)
    expect(expiries.get(key)).toBe(7 * 86_400_000)
    const stored = [...fields.values()].map(String).join()
    expect(['tsk_secret', '"task"', '107'].filter((text) => stored.includes(text))).toEqual([])
    hashes.set(key.replace(':0:0', ':0:1'), fields)
    await expect(open(batchFrom(PHONES, { batch: 1 }))).rejects.toThrow('decryption failed')
  })

  it('stay readable when another key signs messages', async () => {
    const { open, redis, clock } = setUp()
    const submissions = await open(batchFrom())
    await submissions.accept(await submissions.begin([0], terms), 'tsk_1')
    const newer = { ...MESSAGE_KEYS.MESSAGE_KEYS, 2: Buffer.alloc(32, 8).toString('base64') }
    const rotated = redisSubmissions(
      redis, { MESSAGE_KEYS: newer, MESSAGE_KEY_ACTIVE: '2', clock })
    expect((await rotated(batchFrom())).of(0)?.task).toBe('tsk_1')
  })
})

it('tasks of vendors are reported by provider, with the age of the oldest', async () => {
  const batch = batchFrom()
  const other = batchFrom(PHONES, { batch: 7 })
  const task = (submittedAtMs: number, provider = 3): VendorSubmission => ({
    provider, reference: 'r', submittedAtMs, deadlineMs: 9_000_000, pollMs: 1_000,
  })
  const metrics = createMetrics()
  const tasks = new TasksInFlight()
  tasks.watch(metrics, () => 100_000)
  const series = async () => (await metrics.text()).split('\n')
    .filter(line => line.startsWith('vendor_task')).toSorted()
  expect(await series()).toEqual([])
  tasks.record(batch, [task(40_000), task(70_000), task(90_000, 4)])
  tasks.record(other, [task(30_000)])
  expect(await series()).toEqual([
    'vendor_task_oldest_seconds{service="whatsapp",provider="3"} 70',
    'vendor_task_oldest_seconds{service="whatsapp",provider="4"} 10',
    'vendor_tasks{service="whatsapp",provider="3"} 3',
    'vendor_tasks{service="whatsapp",provider="4"} 1',
  ])
  tasks.record(other, [])
  tasks.record(batch, [task(40_000)])
  expect(await series()).toEqual([
    'vendor_task_oldest_seconds{service="whatsapp",provider="3"} 60',
    'vendor_tasks{service="whatsapp",provider="3"} 1',
  ])
  tasks.forget()
  expect(await series()).toEqual([])
})
