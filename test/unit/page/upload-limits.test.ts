import { EventEmitter } from 'node:events'
import { describe, expect, it, type Mock, vi } from 'vitest'
import { createUploadLimits } from '../../../services/page/upload.ts'

const pace = { graceMs: 1_000, bytesPerSecond: 100, completeWithinMs: 60_000 }

const bodies = new Map<string, EventEmitter & { readonly socket: { readonly destroy: Mock } }>()
/** A request of an organization; its body is the latest one in \`bodies\`. */
const requestOf = (orgId: string) => {
  const raw = Object.assign(new EventEmitter(), { socket: { destroy: vi.fn() } })
  bodies.set(orgId, raw)
  return { raw, visitor: { session: { subject: { kind: 'customer', orgId } } } } as never
}
const replyOf = () => ({ raw: new EventEmitter() })
const UNAVAILABLE = { content: { status: 503 } }

describe('concurrent uploads', () => {
  it('are limited to two per organization until a reply is sent', async () => {
    const { onRequest } = createUploadLimits(pace)
    const replies = [replyOf(), replyOf()]
    for (const reply of replies) await onRequest(requestOf('org_a'), reply as never)
    await expect(onRequest(requestOf('org_a'), replyOf() as never))
      .rejects.toMatchObject(UNAVAILABLE)
    await onRequest(requestOf('org_b'), replyOf() as never)
    replies[0]?.raw.emit('close')
    await onRequest(requestOf('org_a'), replyOf() as never)
  })

  it('are limited to six in all, of which each organization gets its share', async () => {
    const { onRequest } = createUploadLimits(pace)
    for (const org of ['a', 'b', 'c']) {
      await onRequest(requestOf(org), replyOf() as never)
      await onRequest(requestOf(org), replyOf() as never)
    }
    await onRequest(requestOf('d'), replyOf() as never)
    const cut = ['a', 'b', 'c'].filter(org => bodies.get(org)?.socket.destroy.mock.calls.length)
    expect(cut).toHaveLength(1)
    await expect(onRequest(requestOf('d'), replyOf() as never)).rejects.toMatchObject(UNAVAILABLE)
  })

  it('that have arrived are not cut for others', async () => {
    const { onRequest } = createUploadLimits(pace)
    for (const org of ['a', 'b', 'c']) {
      for (let upload = 0; upload < 2; upload++) {
        await onRequest(requestOf(org), replyOf() as never)
        bodies.get(org)?.emit('end')
      }
    }
    await expect(onRequest(requestOf('d'), replyOf() as never)).rejects.toMatchObject(UNAVAILABLE)
  })

  it.each([
    ['a byte every two seconds', 1, true],
    ['data at twice the minimum throughput', 200, false],
  ])('with a body of %s (%d bytes per 2 s) are disconnected: %s', (_manner, bytes, isCut) => {
    vi.useFakeTimers()
    try {
      const destroy = vi.fn()
      const raw = Object.assign(new EventEmitter(), { socket: { destroy } })
      const reply = replyOf()
      const done = vi.fn()
      const { preParsing } = createUploadLimits(pace)
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
