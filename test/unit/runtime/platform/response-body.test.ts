import { describe, expect, it } from 'vitest'
import { readBody } from '../../../../services/runtime/platform/response-body.ts'

/** A response of these pieces; `sent` counts those that were asked for. */
function responseOf (count: number, piece: (index: number) => Uint8Array) {
  const state = { sent: 0, isCancelled: false }
  const body = new ReadableStream<Uint8Array>({
    pull: controller => {
      if (state.sent === count) controller.close()
      else controller.enqueue(piece(state.sent++))
    },
    cancel: () => { state.isCancelled = true },
  })
  return { response: new Response(body), state }
}

describe('the body of a response', () => {
  it('is read whole, in one piece or many', async () => {
    const { response } = responseOf(300, index => Buffer.alloc(100, index))
    const body = await readBody(response, 30_000)
    expect(body?.equals(Buffer.concat(
      Array.from({ length: 300 }, (_, index) => Buffer.alloc(100, index))))).toBe(true)
    expect(String(await readBody(new Response('all'), 3))).toBe('all')
    expect(String(await readBody(new Response(null), 3))).toBe('')
  })

  it('is not read beyond its limit', async () => {
    const { response, state } = responseOf(1_000, () => Buffer.alloc(100))
    expect(await readBody(response, 1_000)).toBeUndefined()
    expect([state.sent < 20, state.isCancelled]).toEqual([true, true])
  })

  it('is not read in more than 20,000 pieces, which take little more than its bytes', async () => {
    const few = await readBody(responseOf(20_000, () => Buffer.alloc(1)).response, 50_000)
    expect([few?.length, few?.buffer.byteLength]).toEqual([20_000, 32_768])
    const { response, state } = responseOf(30_000, () => Buffer.alloc(1))
    expect(await readBody(response, 50_000)).toBeUndefined()
    expect(state.isCancelled).toBe(true)
  })

  it('rejects if it is cut off', async () => {
    const { response } = responseOf(10, index => {
      if (index === 5) throw new Error('connection lost')
      return Buffer.alloc(1)
    })
    await expect(readBody(response, 100)).rejects.toThrow('connection lost')
  })
})
