import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { row } from './rows.ts'
import { ask, newCustomer, service, start, stop } from './support.ts'

beforeAll(start)
afterAll(stop)

it(row(22), async () => {
  const { key, client } = await newCustomer()
  const inputs = Array.from({ length: 100_000 }, (_, index) => String(index).padEnd(320, 'x'))
  const post = { isAnswered: false }
  // On a busy machine a request of this size may be refused because it waits too long.
  const send = async () => {
    for (;;) {
      const answer = await ask('/jobs', { key, body: { service, inputs } })
      if (answer.status !== 503) return answer
      await delay(Number(answer.headers.get('retry-after')) * 1_000)
    }
  }
  const answered = send().finally(() => { post.isAnswered = true })
  // One behind the other, so that each but the first is sent and answered meanwhile.
  const meanwhile: number[] = []
  while (!post.isAnswered) {
    meanwhile.push((await ask('/services')).status)
    // Fewer than the limits admit.
    await delay(10)
  }
  const { status, json } = await answered
  expect([status, json.preflight?.invalidRows]).toEqual([202, 100_000])
  expect(meanwhile.length).toBeGreaterThan(3)
  expect(new Set(meanwhile)).toEqual(new Set([200]))
  expect((await client.waitForEnd(json.id)).chargedMicros).toBe(0)
})
