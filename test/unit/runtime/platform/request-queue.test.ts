import { createRequire } from 'node:module'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

type Queue = {
  readonly maybeThrottle: (throttleMs: number) => void
  readonly push: (request: object) => void
  readonly fulfillRequest: (response: object) => void
  readonly scheduleRequestTimeoutCheck: () => void
  readonly destroy: () => void
}

const RequestQueue = createRequire(import.meta.url)('kafkajs/src/network/requestQueue')
const logger = { debug: () => {}, warn: () => {} }

function createQueue (maxInFlightRequests: number) {
  const queue: Queue = new RequestQueue({
    maxInFlightRequests,
    requestTimeout: 1_000,
    enforceRequestTimeout: true,
    clientId: 'test',
    broker: 'test',
    logger,
  })
  const sent: number[] = []
  const failed: number[] = []
  const push = (correlationId: number) => queue.push({
    entry: { correlationId, resolve: () => {}, reject: () => { failed.push(correlationId) } },
    expectResponse: true,
    sendRequest: () => { sent.push(correlationId) },
  })
  const answer = (correlationId: number) =>
    queue.fulfillRequest({ correlationId, payload: null, size: 0 })
  return { queue, sent, failed, push, answer }
}

/** These fail without `deploy/patches`, whose effect no other test would notice. */
describe('the request queue of kafkajs, patched', () => {
  beforeEach(() => { vi.useFakeTimers() })
  afterEach(() => { vi.useRealTimers() })

  it('sets no timer when nothing is pending', () => {
    const { push, answer, sent } = createQueue(1)
    push(1)
    answer(1)
    expect(sent).toEqual([1])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('sends requests that waited for a response, then sets no timer', () => {
    const { push, answer, sent } = createQueue(1)
    push(1)
    push(2)
    expect(sent).toEqual([1])
    answer(1)
    expect(sent).toEqual([1, 2])
    answer(2)
    vi.advanceTimersByTime(10)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('sends throttled requests with one timer as soon as the broker allows', () => {
    const { queue, push, sent } = createQueue(5)
    queue.maybeThrottle(300)
    push(1)
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(299)
    expect(sent).toEqual([])
    vi.advanceTimersByTime(1)
    expect(sent).toEqual([1])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('looks for late answers to all connections with one timer, until none is left', () => {
    const queues = [createQueue(5), createQueue(5)]
    for (const { queue, push } of queues) {
      queue.scheduleRequestTimeoutCheck()
      push(1)
    }
    expect(vi.getTimerCount()).toBe(1)
    queues[0]?.answer(1)
    vi.advanceTimersByTime(1_100)
    expect(queues.map(({ failed }) => failed)).toEqual([[], [1]])
    queues[0]?.queue.destroy()
    expect(vi.getTimerCount()).toBe(1)
    queues[1]?.queue.destroy()
    expect(vi.getTimerCount()).toBe(0)
  })
})
