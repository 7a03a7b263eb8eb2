import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createLog } from '../../../services/platform/log.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import type { Gate } from '../../../services/engine/pause.ts'
import type { Stage } from '../../../services/engine/stage.ts'
import { createSteps } from '../../../services/engine/steps.ts'
import { createWorker, type WorkerDeps } from '../../../services/engine/worker.ts'
import type { Lane } from '../../../services/topology.ts'
import { echoStage, plainWire, rawMessage } from './engine-bench.ts'

function workerOf (stage: Partial<Stage>, lane: Lane, gate?: Gate) {
  const common = { metrics: createMetrics(), log: createLog('x', { level: 'silent' }) }
  const worker = createWorker({
    ...common,
    stage: echoStage(stage as never) as unknown as Stage,
    subscription: { group: 'g', topics: [], lane },
    wire: plainWire,
    emitter: { emit: async () => {}, seal: async () => new Map(), send: async () => {} },
    deadLetters: { admit: () => {}, send: async () => {}, alive: () => {} },
    steps: createSteps(common),
    clock: { now: () => 9_500 },
    ahead: { bytes: 0, mostBytes: 0 },
    gate,
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
  })
  return { worker, deliver }
}

const done = (messages: Parameters<Stage['decide']>[0]) =>
  messages.map(message => ({ finishes: [message], emits: [] }))

describe('a worker', () => {
  it('knows the age of the oldest message in work, of all partitions', async () => {
    const ages: number[] = []
    const { worker, deliver } = workerOf({
      decide: async messages => {
        ages.push(worker.ages())
        return done(messages)
      },
    }, 'small')
    await Promise.all([deliver(0, 9_000), deliver(1, 2_000)])
    expect(ages[0]).toBe(7.5)
    expect([worker.ages(), worker.unfinished()]).toEqual([0, 0])
  })

  it.each([
    ['small', [1, 2, 3]],
    ['bulk', [1, 1, 1]],
  ] as const)('works on partitions of the lane %s as its stage says', async (lane, expected) => {
    let inWork = 0
    const seen: number[] = []
    const { deliver } = workerOf({
      bulkAtOnce: 1,
      decide: async messages => {
        seen.push(++inWork)
        await setImmediate()
        inWork--
        return done(messages)
      },
    }, lane)
    await Promise.all([0, 1, 2].map(partition => deliver(partition, 9_000)))
    expect(seen).toEqual(expected)
  })

  it('leaves alone what waited until it was another\'s, and knows its age', async () => {
    const decided: number[] = []
    const revoked = new AbortController()
    const { worker, deliver } = workerOf({
      bulkAtOnce: 1,
      decide: async messages => {
        decided.push(messages[0]!.raw.partition)
        expect(worker.ages()).toBe(7.5)
        revoked.abort()
        return done(messages)
      },
    }, 'bulk')
    const outcomes = await Promise.all([deliver(0, 9_000), deliver(1, 2_000, revoked.signal)])
    expect(outcomes).toEqual([{ go: 'next' }, { go: 'next' }])
    expect([decided, worker.ages(), worker.unfinished()]).toEqual([[0], 0, 0])
  })
})

/** A gate that is closed until it is let open. */
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
  it('keeps what it is given in hand, tells its age, and begins once it goes on', async () => {
    const { gate, open } = closedGate()
    const decided: number[] = []
    const { worker, deliver } = workerOf({
      decide: async messages => {
        decided.push(messages[0]!.raw.partition)
        return done(messages)
      },
    }, 'small', gate)
    const delivering = Promise.all([deliver(0, 9_000), deliver(1, 2_000)])
    await setImmediate()
    expect([decided, worker.ages()]).toEqual([[], 7.5])
    open()
    expect(await delivering).toEqual([{ go: 'next' }, { go: 'next' }])
    expect([decided, worker.ages()]).toEqual([[0, 1], 0])
  })

  it('finishes the slice in work and begins no other of the same delivery', async () => {
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
    }, 'small', { ...gate, opened: () => new Promise(() => {}) })
    const commits: bigint[] = []
    const delivering = worker.onDelivery({
      topic: 'rows.submitted.small',
      partition: 0,
      messages: [rawMessage(0), rawMessage(1)],
      more: () => [],
      signal: new AbortController().signal,
      commit: async next => { commits.push(next) },
    })
    expect(await Promise.race([delivering, setImmediate('waits')])).toBe('waits')
    expect([decided, commits]).toEqual([[0n], [1n]])
  })

  it('gives a partition back that is taken away meanwhile', async () => {
    const lost = new AbortController()
    const { worker, deliver } = workerOf({}, 'small', closedGate().gate)
    const delivering = deliver(0, 9_000, lost.signal)
    await setImmediate()
    lost.abort(new Error('lost'))
    expect(await delivering).toEqual({ go: 'next' })
    expect([worker.ages(), worker.unfinished()]).toEqual([0, 0])
  })

  it('lets go of nothing it holds until it goes on', async () => {
    const { gate, open, close } = closedGate()
    let asked = 0
    const { worker, deliver } = workerOf({
      decide: async () => [],
      release: async () => {
        asked++
        return []
      },
    }, 'small', gate)
    open()
    await deliver(0, 9_000)
    close()
    await worker.release()
    expect(asked).toBe(0)
    open()
    await worker.release()
    expect(asked).toBe(1)
  })
})
