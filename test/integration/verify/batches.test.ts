import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { Failpoint } from '../../../services/runtime/platform/failpoint.ts'
import * as failpoints from '../../../services/runtime/platform/failpoint.ts'
import { closeAfterAll } from '../../support/close-after-all.ts'
import {
  FAKE_VENDORS, FAKE_WORDS, type FakeMode, presetAt, startFakeVendors,
} from '../../support/vendors/fake-vendors.ts'
import { emitted } from '../../support/stage-messages.ts'
import { follow, startVerify } from './start-verify.ts'

/** The process crashes at this call of this failpoint. */
let crashing: { point: Failpoint, at: number } | undefined
vi.spyOn(failpoints, 'failpoint').mockImplementation(name => {
  if (crashing?.point !== name || --crashing.at > 0) return
  crashing = undefined
  throw new Error('crash')
})

const { redis, acceptVendorJob } = await startVerify()
const vendors = closeAfterAll(await startFakeVendors())
beforeEach(() => {
  crashing = undefined
  vendors.behave('well')
  vendors.purchases.length = vendors.calls.length = 0
})

const PRESETS = Object.values(FAKE_VENDORS).flatMap(({ batches = [] }) => batches)
type Preset = typeof PRESETS[number]
const presetNamed = (wanted: string) => PRESETS.find(([name]) => name === wanted)!
const BOUNCER = presetNamed('bouncer-batch')
const ZEROBOUNCE = presetNamed('zerobounce-batch')
const [, , EMAILS] = BOUNCER

type Setting = {
  readonly auth?: object
  /** Milliseconds between two questions, in place of those of the preset. */
  readonly pollMs?: number
  readonly next?: string
  readonly second?: string
}

/** A vendor that is asked so seldom has its deadline after a few retries. */
const SELDOM = { pollMs: 900_000 }

async function setUp (
  [name, service, contacts]: Preset, { pollMs, next, second, ...more }: Setting = {}
) {
  const preset = presetAt(vendors.url, `http:${name}`, { id: 1, ...more }) as { batch: object }
  if (pollMs !== undefined) preset.batch = { ...preset.batch, pollMs }
  const described: object[] = [preset]
  const other = next ?? second
  if (other !== undefined) described.push(presetAt(vendors.url, `http:${other}`, { id: 2 }))
  const job = await acceptVendorJob({
    described,
    lists: { [service]: next === undefined ? ['http:1'] : ['http:1', 'http:2'] },
    ...second === undefined ? {} : { second: { [service]: ['http:2'] } },
  })
  return { job, batch: job.batch(contacts, { service }) }
}

const verdictsOf = (rows: readonly (readonly [number, string, string])[]) =>
  rows.map(([, status, reason]) => `${status} ${reason}`)

describe('a vendor that takes batches', () => {
  it.each(PRESETS)('%s, %s: is given the rows once and asked until they are answered', async (
    ...preset
  ) => {
    const { job, batch } = await setUp(preset)
    const { rows, retries } = await follow(job, batch)
    expect(verdictsOf(rows)).toEqual(preset[3])
    expect(vendors.purchases).toEqual([preset[2]])
    expect(retries).toBe(2)
    expect(await job.taskSeries()).toEqual([])
    expect(job.counted).not.toContain('verification_batches_retried_total')
  })

  it('has its rows waiting without holding a message, at its own pace', async () => {
    const { job, batch } = await setUp(BOUNCER)
    const stage = job.start()
    const decisions = await stage.decide([batch], new AbortController().signal)
    expect(decisions).toMatchObject([{ completes: [batch], emits: [{ topic: 'rows.retry' }] }])
    const now = job.clock.now()
    expect(emitted(decisions, 'rows.retry')[0]?.value)
      .toMatchObject({ notBefore: now + 15_000, retryDeadline: now + 7_200_000 })
    const later = job.batch(EMAILS, { service: 'email-validation', batch: 1 })
    const series = (oldest: number, count: number) => [
      `vendor_task_oldest_seconds{service="email-validation",provider="101"} ${oldest}`,
      `vendor_tasks{service="email-validation",provider="101"} ${count}`,
    ]
    job.clock.advance(9_000)
    await stage.decide([later], new AbortController().signal)
    expect(await job.taskSeries()).toEqual(series(9, 2))
    stage.forget()
    expect(await job.taskSeries()).toEqual([])
    await stage.decide([later], new AbortController().signal)
    expect(await job.taskSeries()).toEqual(series(0, 1))
    await job.cancel()
    await stage.decide([later], new AbortController().signal)
    expect(await job.taskSeries()).toEqual([])
  })

  it('completes the rows of a partial answer, and the others end unknown', async () => {
    for (const preset of PRESETS) {
      const { job, batch } = await setUp(preset)
      vendors.behave('partial')
      const { rows } = await follow(job, batch)
      expect(verdictsOf(rows)).toEqual(['unknown no_answer', ...preset[3].slice(1)])
    }
  })

  it('has until its deadline', async () => {
    for (const preset of PRESETS) {
      const { job, batch } = await setUp(preset, SELDOM)
      vendors.behave('running')
      const fromMs = job.clock.now()
      vendors.purchases.length = 0
      const { rows } = await follow(job, batch)
      expect(new Set(verdictsOf(rows))).toEqual(new Set(['unknown timeout']))
      const hours = preset[0] === 'zerobounce-batch' ? 4 : 2
      expect(job.clock.now() - fromMs).toBe(hours * 3_600_000)
      expect(vendors.purchases).toHaveLength(1)
    }
  })

  it('is not bought from again once its task has failed', async () => {
    const { job, batch } = await setUp(presetNamed('checknumber'))
    vendors.behave('failed')
    expect(verdictsOf((await follow(job, batch)).rows))
      .toEqual(Array(3).fill('unknown no_answer'))
    expect(vendors.purchases).toHaveLength(1)
  })

  it.each(PRESETS)('%s, %s: keeps its rows while it fails to answer for them', async (
    ...preset
  ) => {
    const { job, batch } = await setUp(preset)
    let stage = job.start()
    const signal = new AbortController().signal
    const [submitted] = await stage.decide([batch], signal)
    for (const mode of ['broken', 'limited', 'unauthorized'] as const) {
      vendors.behave(mode)
      stage = job.start()
      const [waiting] = await stage.decide([batch], signal)
      expect(waiting).toEqual({ ...submitted, afterProduced: expect.any(Function) })
    }
    vendors.behave('well')
    expect(verdictsOf((await follow(job, batch)).rows)).toEqual(preset[3])
    expect(vendors.purchases).toHaveLength(1)
  })

  it.each(PRESETS.flatMap((preset) => (['unauthorized', 'empty', 'limited'] as const)
    .map((mode) => [preset[0], mode, preset] as const)))(
    '%s: rows that it did not accept (%s) are submitted later', async (_name, mode, preset) => {
      const { job, batch } = await setUp(preset)
      vendors.behave(mode)
      const stage = job.start()
      const [decision] = await stage.decide([batch], new AbortController().signal)
      expect(decision).toMatchObject({
        emits: [{
          value: {
            notBefore: job.clock.now() + 60_000,
            retryDeadline: job.clock.now() + 900_000,
          }
        }]
      })
      expect(await redis.keys(`submissions:*:${job.job}:*`)).toEqual([])
      vendors.behave('well')
      expect(verdictsOf((await follow(job, batch)).rows)).toEqual(preset[3])
    })

  it('keeps its rows from the next provider as long as it may have them', async () => {
    const { job, batch } = await setUp(BOUNCER, { next: 'zerobounce-batch' })
    vendors.behave('lost')
    expect(new Set(verdictsOf((await follow(job, batch, 3)).rows)))
      .toEqual(new Set(['unknown no_answer']))
    expect(vendors.calls).toEqual(['POST /v1.1/email/verify/batch'])
  })

  it('leaves rows that it refuses to the next provider', async () => {
    const { job, batch } = await setUp(BOUNCER, {
      auth: { kind: 'none' }, next: 'zerobounce-batch',
    })
    expect(verdictsOf((await follow(job, batch)).rows)).toEqual(ZEROBOUNCE[3])
    expect(vendors.purchases).toEqual([EMAILS])
  })

  it('gives second opinions on what it does not know, each bought once', async () => {
    const { job, batch } = await setUp(BOUNCER, { second: 'zerobounce-batch' })
    const { rows } = await follow(job, batch)
    expect(verdictsOf(rows)).toEqual([...BOUNCER[3].slice(0, 3), 'unknown greylisted'])
    expect(vendors.purchases).toEqual([EMAILS, ['unknown@x.org']])
  })
})

/** Every call of a failpoint of `verify` between the submission and the last answer. */
const CRASHES = [
  ['verify.begun', 1], ['verify.begun', 2], ['verify.begun', 3], ['verify.claimed', 1],
  ['verify.intended', 1], ['verify.submitted', 1], ['verify.recorded', 1], ['verify.checked', 1],
  ['verify.kept', 1],
] as const

describe('a crash of verify', () => {
  it.each(CRASHES)('at %s, call %i, buys nothing twice and loses no row', async (point, at) => {
    for (const preset of PRESETS) {
      const { job, batch } = await setUp(preset)
      vendors.purchases.length = 0
      crashing = { point, at }
      const { rows, crashes } = await follow(job, batch)
      expect(crashes).toBe(1)
      expect(rows.map(([row]) => row)).toEqual(preset[2].map((_, row) => row))
      expect(vendors.purchases.length).toBeLessThanOrEqual(1)
      const isUnsure = ['verify.intended', 'verify.submitted'].includes(point)
      expect(verdictsOf(rows))
        .toEqual(isUnsure ? preset[2].map(() => 'unknown no_answer') : preset[3])
    }
  })

  it('or a lost reply leaves rows unknown, without buying them twice', async () => {
    for (const preset of PRESETS) {
      const { job, batch } = await setUp(preset)
      vendors.purchases.length = 0
      vendors.behave('lost')
      const stage = job.start()
      await stage.decide([batch], new AbortController().signal)
      vendors.behave('well')
      const { rows } = await follow(job, batch)
      expect(new Set(verdictsOf(rows))).toEqual(new Set(['unknown no_answer']))
      expect(vendors.purchases).toHaveLength(1)
    }
  })
})

describe('a word of a vendor that takes batches', () => {
  const modes: readonly FakeMode[] = [
    'well', 'partial', 'running', 'failed', 'lost', 'broken', 'limited', 'unauthorized', 'empty',
    'refusing',
  ]
  it.each(PRESETS)('%s, %s: is in nothing that leaves verify, however it behaves', async (
    ...preset
  ) => {
    const heard: unknown[] = []
    for (const mode of modes) {
      const { job, batch } = await setUp(preset, SELDOM)
      vendors.behave(mode)
      heard.push((await follow(job, batch)).decisions)
    }
    for (const key of await redis.keys('submissions:*')) {
      const fields = Object.entries(await redis.hgetallBuffer(key))
      heard.push(key, fields.map(([name, value]) => [name, value.toString('latin1')]))
    }
    for (const key of await redis.keysBuffer('c:*')) heard.push(['cached', await redis.get(key)])
    const text = JSON.stringify(heard, (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value).toLowerCase()
    for (const part of ['rows.completed', 'submissions:', 'cached']) expect(text).toContain(part)
    expect(FAKE_WORDS.filter((word) => text.includes(word.toLowerCase()))).toEqual([])
  })
})
