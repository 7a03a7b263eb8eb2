import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { Failpoint } from '../../../services/runtime/platform/failpoint-list.ts'
import { createBatchEnvironment, follow } from '../../support/batch-stage.ts'
import { closeAfterAll } from '../../support/close-after-all.ts'
import type { FakeMode } from '../../support/vendors/fake-vendor.ts'
import {
  FAKE_VENDORS, FAKE_WORDS, presetAt, startFakeVendors,
} from '../../support/vendors/fake-vendors.ts'
import { batchOf, emitted } from '../../support/stage-messages.ts'

/** The process crashes at this call of this failpoint. */
let crashing: { point: Failpoint, at: number } | undefined
vi.mock('../../../services/runtime/platform/failpoint.ts', () => ({
  failpoint: (name: Failpoint) => {
    if (crashing?.point !== name || --crashing.at > 0) return
    crashing = undefined
    throw new Error('crash')
  },
}))

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

type Others = { readonly next?: string, readonly second?: string }

function setUp (
  [name, service, contacts]: Preset, more: object = {}, { next, second }: Others = {}
) {
  const described = [presetAt(vendors.url, `http:${name}`, { id: 1, ...more })]
  const other = next ?? second
  if (other !== undefined) described.push(presetAt(vendors.url, `http:${other}`, { id: 2 }))
  const environment = createBatchEnvironment({
    described,
    lists: { [service]: next === undefined ? ['http:1'] : ['http:1', 'http:2'] },
    ...second === undefined ? {} : { second: { [service]: ['http:2'] } },
  })
  return { environment, batch: batchOf([...contacts], { service }) }
}

const verdictsOf = (rows: readonly (readonly [number, string, string])[]) =>
  rows.map(([, status, reason]) => `${status} ${reason}`)

describe('a vendor that takes batches', () => {
  it.each(PRESETS)('%s, %s: is given the rows once and asked until they are answered', async (
    ...preset
  ) => {
    const { environment, batch } = setUp(preset)
    const { rows, retries } = await follow(environment, batch)
    expect(verdictsOf(rows)).toEqual(preset[3])
    expect(vendors.purchases).toEqual([preset[2]])
    expect(retries).toBe(2)
    expect(await environment.taskSeries()).toEqual([])
    expect(environment.counted).not.toContain('verification_batches_retried_total')
  })

  it('has its rows waiting without holding a message, at its own pace', async () => {
    const { environment, batch } = setUp(BOUNCER)
    const stage = environment.start()
    const decisions = await stage.decide([batch], new AbortController().signal)
    expect(decisions).toMatchObject([{ completes: [batch], emits: [{ topic: 'rows.retry' }] }])
    const now = environment.clock.now()
    expect(emitted(decisions, 'rows.retry')[0]?.value)
      .toMatchObject({ notBefore: now + 15_000, retryDeadline: now + 7_200_000 })
    expect(await environment.taskSeries()).toEqual([
      'vendor_task_oldest_seconds{service="email-validation",provider="101"} 0',
      'vendor_tasks{service="email-validation",provider="101"} 1',
    ])
    environment.store.batchAction = async () => ({ action: 'cancelling' })
    await stage.decide([batch], new AbortController().signal)
    expect(await environment.taskSeries()).toEqual([])
  })

  it('completes the rows of a partial answer, and the others end unknown', async () => {
    for (const preset of PRESETS) {
      const { environment, batch } = setUp(preset)
      vendors.behave('partial')
      const { rows } = await follow(environment, batch)
      expect(verdictsOf(rows)).toEqual(['unknown no_answer', ...preset[3].slice(1)])
    }
  })

  it('has until its deadline', async () => {
    for (const preset of PRESETS) {
      const { environment, batch } = setUp(preset)
      vendors.behave('running')
      const fromMs = environment.clock.now()
      vendors.purchases.length = 0
      const { rows } = await follow(environment, batch)
      expect(new Set(verdictsOf(rows))).toEqual(new Set(['unknown timeout']))
      const hours = preset[0] === 'zerobounce-batch' ? 4 : 2
      expect(environment.clock.now() - fromMs).toBe(hours * 3_600_000)
      expect(vendors.purchases).toHaveLength(1)
    }
  })

  it('is not bought from again once its task has failed', async () => {
    const { environment, batch } = setUp(presetNamed('checknumber'))
    vendors.behave('failed')
    expect(verdictsOf((await follow(environment, batch)).rows))
      .toEqual(Array(3).fill('unknown no_answer'))
    expect(vendors.purchases).toHaveLength(1)
  })

  it.each(PRESETS)('%s, %s: keeps its rows while it fails to answer for them', async (
    ...preset
  ) => {
    const { environment, batch } = setUp(preset)
    let stage = environment.start()
    const signal = new AbortController().signal
    const [submitted] = await stage.decide([batch], signal)
    for (const mode of ['broken', 'limited', 'unauthorized'] as const) {
      vendors.behave(mode)
      stage = environment.start()
      const [waiting] = await stage.decide([batch], signal)
      expect(waiting).toEqual({ ...submitted, afterProduced: expect.any(Function) })
    }
    vendors.behave('well')
    expect(verdictsOf((await follow(environment, batch)).rows)).toEqual(preset[3])
    expect(vendors.purchases).toHaveLength(1)
  })

  it.each(PRESETS.flatMap((preset) => (['unauthorized', 'empty', 'limited'] as const)
    .map((mode) => [preset[0], mode, preset] as const)))(
    '%s: rows that it did not accept (%s) are submitted later', async (_name, mode, preset) => {
      const { environment, batch } = setUp(preset)
      vendors.behave(mode)
      const stage = environment.start()
      const [decision] = await stage.decide([batch], new AbortController().signal)
      expect(decision).toMatchObject({
        emits: [{
          value: {
            notBefore: environment.clock.now() + 60_000,
            retryDeadline: environment.clock.now() + 900_000,
          }
        }]
      })
      expect([...environment.hashes.values()].flatMap((fields) => [...fields])).toEqual([])
      vendors.behave('well')
      expect(verdictsOf((await follow(environment, batch)).rows)).toEqual(preset[3])
    })

  it('keeps its rows from the next provider as long as it may have them', async () => {
    const { environment, batch } = setUp(BOUNCER, {}, { next: 'zerobounce-batch' })
    vendors.behave('lost')
    expect(new Set(verdictsOf((await follow(environment, batch, 3)).rows)))
      .toEqual(new Set(['unknown no_answer']))
    expect(vendors.calls).toEqual(['POST /v1.1/email/verify/batch'])
  })

  it('leaves rows that it refuses to the next provider', async () => {
    const { environment, batch } = setUp(BOUNCER, { auth: { kind: 'none' } }, {
      next: 'zerobounce-batch',
    })
    expect(verdictsOf((await follow(environment, batch)).rows)).toEqual(ZEROBOUNCE[3])
    expect(vendors.purchases).toEqual([EMAILS])
  })

  it('gives second opinions on what it does not know, each bought once', async () => {
    const { environment, batch } = setUp(BOUNCER, {}, { second: 'zerobounce-batch' })
    const { rows } = await follow(environment, batch)
    expect(verdictsOf(rows)).toEqual([...BOUNCER[3].slice(0, 3), 'unknown greylisted'])
    expect(vendors.purchases).toEqual([EMAILS, ['unknown@x.org']])
  })
})

/** Each call of each failpoint of `verify` between the submission and the last answer. */
const CRASHES = ([
  'verify.begun', 'verify.claimed', 'verify.intended', 'verify.submitted', 'verify.recorded',
  'verify.checked', 'verify.kept',
] as const).flatMap((point) => [1, 2, 3].map((at) => [point, at] as const))

describe('a crash of verify', () => {
  it.each(CRASHES)('at %s, call %i, buys nothing twice and loses no row', async (point, at) => {
    for (const preset of PRESETS) {
      const { environment, batch } = setUp(preset)
      vendors.purchases.length = 0
      crashing = { point, at }
      const { rows } = await follow(environment, batch)
      expect(rows.map(([row]) => row)).toEqual(preset[2].map((_, row) => row))
      expect(vendors.purchases.length).toBeLessThanOrEqual(1)
      const isUnsure = at === 1 && ['verify.intended', 'verify.submitted'].includes(point)
      expect(verdictsOf(rows))
        .toEqual(isUnsure ? preset[2].map(() => 'unknown no_answer') : preset[3])
    }
  })

  it('or a lost reply leaves rows unknown, without buying them twice', async () => {
    for (const preset of PRESETS) {
      const { environment, batch } = setUp(preset)
      vendors.purchases.length = 0
      vendors.behave('lost')
      const stage = environment.start()
      await stage.decide([batch], new AbortController().signal)
      vendors.behave('well')
      const { rows } = await follow(environment, batch)
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
      const { environment, batch } = setUp(preset)
      vendors.behave(mode)
      const { decisions } = await follow(environment, batch)
      heard.push(decisions, [...environment.hashes].map(([key, fields]) =>
        [key, [...fields].map(([name, value]) => [name, value.toString('latin1')])]))
      heard.push([...environment.cache.entries])
    }
    const text = JSON.stringify(heard, (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value).toLowerCase()
    expect(text).toContain('rows.completed')
    expect(FAKE_WORDS.filter((word) => text.includes(word.toLowerCase()))).toEqual([])
  })
})
