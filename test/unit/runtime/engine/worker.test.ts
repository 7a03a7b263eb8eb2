import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createLog } from '../../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import type { Gate } from '../../../../services/runtime/engine/pause.ts'
import type { Stage } from '../../../../services/runtime/engine/stage.ts'
import { Steps } from '../../../../services/runtime/engine/steps.ts'
import { Worker, type WorkerDeps } from '../../../../services/runtime/engine/worker.ts'
import type { Lane } from '../../../../services/topology.ts'
import { echoStage, plainCodec, rawMessage } from './engine-bench.ts'

function workerOf (stage: Partial<Stage>, lane: Lane, more: Partial<WorkerDeps> = {}) {
  const common = { metrics: createMetrics(), log: createLog('x', { level: 'silent' }) }
  const worker = new Worker({
    ...common,
    stage: echoStage(stage as never) as unknown as Stage,
    subscription: { group: 'g', topics: [], lane },
    messageCodec: plainCodec,
    emitter: { emit: async () => {}, seal: async () => new Map(), send: async () => {} },
    deadLetters: {
      checkLimit: () => {}, send: async () => {}, report: async () => {}, reset: () => {},
    },
    steps: new Steps(common),
    clock: { now: () => 9_500 },
    readAhead: { bytes: 0, maxBytes: 0 },
    ...more,
  } satisfies WorkerDeps)
  const deliver = (
    partition: number, timestampMs: number, signal = new AbortController().signal
  ) => worker.onDelivery({
    topic: `rows.submitted.${lane}`,
    partition,
    messages: [{ ...rawMessage(0), partition, timestampMs }],
    more: () => [],
    signal,
    commit: async () => {},
    redeliver: () => {},
  })
  return { worker, deliver, metrics: common.metrics }
}

const done = (messages: Parameters<Stage['decide']>[0]) =>
  messages.map(message => ({ completes: [message], emits: [] }))

const ONE_BATCH = { capacity: 1, maxCredit: 0, of: () => ({ name: 'a', cost: 1 }) }

describe('a worker', () => {
  it('counts completed messages and their rows, and no held ones', async () => {
    const { deliver, metrics } = workerOf({
      decide: async messages => messages[0]?.raw.partition === 0 ? done(messages) : [],
    }, 'small', { subscription: { group: 'g', topics: [], lane: 'small', service: 'whatsapp' } })
    await deliver(0, 9_000)
    await deliver(1, 9_000)
    const labels = '{stage="normalize",lane="small",service="whatsapp"}'
    const text = await metrics.text()
    expect(text).toContain(`stage_chunks_total${labels} 1`)
    expect(text).toContain(`stage_rows_total${labels} 2`)
  })

  it('reports the age of the oldest message in progress, of all partitions', async () => {
    const ages: number[] = []
    const { worker, deliver } = workerOf({
      decide: async messages => {
        ages.push(worker.oldestAgeSeconds())
        return done(messages)
      },
    }, 'small')
    await Promise.all([deliver(0, 9_000), deliver(1, 2_000)])
    expect(ages[0]).toBe(7.5)
    expect([worker.oldestAgeSeconds(), worker.unfinished()]).toEqual([0, 0])
  })

  it('reports the age of a held message that is late', () => {
    const { worker } = workerOf({ heldSinceMs: () => 4_500 }, 'small')
    expect(worker.oldestAgeSeconds()).toBe(5)
  })

  it('reports the age of a flush in progress', async () => {
    let nowMs = 9_500
    const started = Promise.withResolvers<void>()
    const flushed = Promise.withResolvers<[]>()
    const flushHeld = async () => {
      started.resolve()
      return await flushed.promise
    }
    const clock = { now: () => nowMs }
    const { worker, deliver } = workerOf({ decide: async () => [], flushHeld }, 'small', { clock })
    await deliver(0, 9_000)
    const flushing = worker.flushHeld()
    await started.promise
    nowMs += 6_000
    expect(worker.oldestAgeSeconds()).toBe(6)
    flushed.resolve([])
    await flushing
    expect(worker.oldestAgeSeconds()).toBe(0)
  })

  it.each([
    ['without slots', undefined, [1, 2, 3]],
    ['with slots for one batch', ONE_BATCH, [1, 1, 1]],
  ])('decides partitions concurrently %s', async (_title, slots, expected) => {
    let inWork = 0
    const seen: number[] = []
    const { deliver } = workerOf({
      ...slots && { slots },
      decide: async messages => {
        seen.push(++inWork)
        await setImmediate()
        inWork--
        return done(messages)
      },
    }, 'bulk')
    await Promise.all([0, 1, 2].map(partition => deliver(partition, 9_000)))
    expect(seen).toEqual(expected)
  })

  it('skips a delivery whose partition was revoked while it waited', async () => {
    const decided: number[] = []
    const revoked = new AbortController()
    const { worker, deliver } = workerOf({
      slots: ONE_BATCH,
      decide: async messages => {
        decided.push(messages[0]!.raw.partition)
        expect(worker.oldestAgeSeconds()).toBe(7.5)
        revoked.abort()
        return done(messages)
      },
    }, 'bulk')
    const outcomes = await Promise.all([deliver(0, 9_000), deliver(1, 2_000, revoked.signal)])
    expect(outcomes).toEqual([undefined, undefined])
    worker.onAssigned()
    expect([decided, worker.oldestAgeSeconds(), worker.unfinished()]).toEqual([[0], 0, 0])
  })
})

/** A gate that is closed until the test opens it. */
function closedGate () {
  const { promise, resolve } = Promise.withResolvers<void>()
  let isOpen = false
  const aborted = (signal: AbortSignal) => new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')))
  })
  const gate: Gate = {
    isOpen: () => isOpen,
    opened: signal => Promise.race([promise, aborted(signal)]),
  }
  const open = () => {
    isOpen = true
    resolve()
  }
  return { gate, open, close: () => { isOpen = false } }
}

describe('a worker whose stage is paused', () => {
  it('holds a delivery, reports its age, and starts it on resume', async () => {
    const { gate, open } = closedGate()
    const decided: number[] = []
    const { worker, deliver } = workerOf({
      decide: async messages => {
        decided.push(messages[0]!.raw.partition)
        return done(messages)
      },
    }, 'small', { gate })
    const delivering = Promise.all([deliver(0, 9_000), deliver(1, 2_000)])
    await setImmediate()
    expect([decided, worker.oldestAgeSeconds()]).toEqual([[], 7.5])
    open()
    await delivering
    expect([decided, worker.oldestAgeSeconds()]).toEqual([[0, 1], 0])
  })

  it('completes the running batch and starts no other', async () => {
    const { gate, open, close } = closedGate()
    open()
    const decided: bigint[] = []
    const { worker } = workerOf({
      batch: 1,
      decide: async messages => {
        decided.push(messages[0]!.raw.offset)
        close()
        return done(messages)
      },
    }, 'small', { gate: { ...gate, opened: () => new Promise(() => {}) } })
    const commits: bigint[] = []
    const delivering = worker.onDelivery({
      topic: 'rows.submitted.small',
      partition: 0,
      messages: [rawMessage(0), rawMessage(1)],
      more: () => [],
      signal: new AbortController().signal,
      commit: async next => { commits.push(next) },
      redeliver: () => {},
    })
    expect(await Promise.race([delivering, setImmediate('waits')])).toBe('waits')
    expect([decided, commits]).toEqual([[0n], [1n]])
  })

  it('returns a partition that is revoked', async () => {
    const lost = new AbortController()
    const { worker, deliver } = workerOf({}, 'small', { gate: closedGate().gate })
    const delivering = deliver(0, 9_000, lost.signal)
    await setImmediate()
    lost.abort(new Error('lost'))
    await delivering
    expect([worker.oldestAgeSeconds(), worker.unfinished()]).toEqual([0, 0])
  })

  it('flushes no held messages until it is resumed', async () => {
    const { gate, open, close } = closedGate()
    let calls = 0
    const { worker, deliver } = workerOf({
      decide: async () => [],
      flushHeld: async () => {
        calls++
        return []
      },
    }, 'small', { gate })
    open()
    await deliver(0, 9_000)
    close()
    await worker.flushHeld()
    expect(calls).toBe(0)
    open()
    await worker.flushHeld()
    expect(calls).toBe(1)
  })
})
