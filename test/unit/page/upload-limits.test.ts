import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, type Mock, vi } from 'vitest'
import { createUploadLimits } from '../../../services/page/upload.ts'

const pace = { graceMs: 1_000, bytesPerSecond: 100, completeWithinMs: 60_000 }

const bodies = new Map<string, PassThrough & { readonly socket: { readonly destroy: Mock } }>()
/** A request of an organization; its body is the latest one in \`bodies\`. */
const requestOf = (orgId: string) => {
  const raw = Object.assign(new PassThrough(), { socket: { destroy: vi.fn() } })
  bodies.set(orgId, raw)
  const visitor = { session: { subject: { kind: 'customer', orgId } } }
  return { raw, headers: {}, visitor } as never
}
const replyOf = () => ({ raw: new PassThrough() })
const parse = (hooks: ReturnType<typeof createUploadLimits>, ...[request, reply, body, done]:
readonly unknown[]) => {
  Reflect.apply(hooks.preParsing as () => void, undefined, [request, reply, body, done])
}
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

  it('take no place of a browser that has gone before them', async () => {
    const { onRequest } = createUploadLimits(pace)
    const { raw } = replyOf()
    await once(raw.destroy(), 'close')
    for (let upload = 0; upload < 3; upload++) {
      await onRequest(requestOf('org_a'), { raw } as never)
      await nextTurn()
    }
  })

  it.each([
    ['a byte every two seconds', 1, true],
    ['data at twice the minimum throughput', 200, false],
  ])('with a body of %s (%d bytes per 2 s) are disconnected: %s', async (_manner, bytes, isCut) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      const limits = createUploadLimits(pace)
      const [request, reply, done] = [requestOf('org_a'), replyOf(), vi.fn()]
      await limits.onRequest(request, reply as never)
      const body = bodies.get('org_a')
      parse(limits, request, reply, body, done)
      expect(done).toHaveBeenCalledWith(null, body)
      const cuts = () => body?.socket.destroy.mock.calls.length ?? 0
      for (let round = 0; round < 10; round++) {
        body?.emit('data', Buffer.alloc(bytes))
        vi.advanceTimersByTime(2_000)
      }
      expect(cuts() > 0).toBe(isCut)
      reply.raw.emit('close')
      const before = cuts()
      vi.advanceTimersByTime(60_000)
      expect(cuts()).toBe(before)
    } finally {
      vi.useRealTimers()
    }
  })
})
