import { EventEmitter } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import { createUploadPlaces } from '../../../../services/workspace/page/upload-places.ts'

const pace = { graceMs: 1_000, bytesPerSecond: 100, wholeWithinMs: 60_000 }

const requestOf = (orgId: string) =>
  ({ visitor: { session: { holder: { kind: 'customer', orgId } } } }) as never
const replyOf = () => ({ raw: new EventEmitter() })
const UNAVAILABLE = { fault: { status: 503 } }

describe('the places for uploads', () => {
  it('are two for an organization, and free again when its answer is sent', async () => {
    const { onRequest } = createUploadPlaces(pace)
    const replies = [replyOf(), replyOf()]
    for (const reply of replies) await onRequest(requestOf('org_a'), reply as never)
    await expect(onRequest(requestOf('org_a'), replyOf() as never))
      .rejects.toMatchObject(UNAVAILABLE)
    await onRequest(requestOf('org_b'), replyOf() as never)
    replies[0]?.raw.emit('close')
    await onRequest(requestOf('org_a'), replyOf() as never)
  })

  it('are six in all', async () => {
    const { onRequest } = createUploadPlaces(pace)
    for (const org of ['a', 'b', 'c']) {
      await onRequest(requestOf(org), replyOf() as never)
      await onRequest(requestOf(org), replyOf() as never)
    }
    await expect(onRequest(requestOf('d'), replyOf() as never)).rejects.toMatchObject(UNAVAILABLE)
  })

  it.each([
    ['a byte every two seconds', 1, true],
    ['as fast as is asked for', 200, false],
  ])('are lost by a body that comes by %s: %d bytes, %s', (_manner, bytes, isCut) => {
    vi.useFakeTimers()
    try {
      const destroy = vi.fn()
      const raw = Object.assign(new EventEmitter(), { socket: { destroy } })
      const reply = replyOf()
      const done = vi.fn()
      const { preParsing } = createUploadPlaces(pace)
      Reflect.apply(preParsing as () => void, undefined,
        [{ raw, headers: {} }, reply, 'payload', done])
      expect(done).toHaveBeenCalledWith(null, 'payload')
      for (let round = 0; round < 10; round++) {
        raw.emit('data', Buffer.alloc(bytes))
        vi.advanceTimersByTime(2_000)
      }
      expect(destroy.mock.calls.length > 0).toBe(isCut)
      reply.raw.emit('close')
      const cuts = destroy.mock.calls.length
      vi.advanceTimersByTime(60_000)
      expect(destroy.mock.calls.length).toBe(cuts)
    } finally {
      vi.useRealTimers()
    }
  })
})
