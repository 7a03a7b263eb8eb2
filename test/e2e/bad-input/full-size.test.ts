import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ask, newCustomer, refusal, service, start, stop } from './support.ts'

beforeAll(start)
afterAll(stop)

const ROWS = 100_000

/** A job of invalid rows of the largest number, while other requests are answered. */
async function runWhileOthersAreAnswered (inputs: readonly unknown[]) {
  const { key, client } = await newCustomer()
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
  expect([status, json.preflight?.invalidRows]).toEqual([202, ROWS])
  expect(meanwhile.length).toBeGreaterThan(3)
  expect(new Set(meanwhile)).toEqual(new Set([200]))
  expect((await client.waitForEnd(json.id)).chargedMicros).toBe(0)
  return { id: json.id as string, client }
}

it('100,000 inputs of 320 characters are accepted, and others are answered meanwhile', async () => {
  await runWhileOthersAreAnswered(
    Array.from({ length: ROWS }, (_, index) => String(index).padEnd(320, 'x')))
})

it('100,000 ids of 128 characters are accepted, objects of many shapes refused', async () => {
  const idOf = (index: number) => `é${index}`.padEnd(128, 'x')
  const inputs = Array.from({ length: ROWS }, (_, index) =>
    ({ input: String(index).padEnd(20, 'x'), id: idOf(index) }))
  const { id, client } = await runWhileOthersAreAnswered(inputs)
  let rows = 0
  for await (const line of client.resultLines(id, { columns: ['id'] })) {
    if (line['id'] !== idOf(rows)) expect(line).toEqual({ id: idOf(rows) })
    rows += 1
  }
  expect(rows).toBe(ROWS)
  const shapes = Array.from({ length: ROWS }, (_, index) => ({ [`k${index}`]: '' }))
  expect(await refusal({ service, inputs: shapes })).toEqual([400, 'invalid_request', 'inputs[4]'])
  const ids = inputs.map(({ id }) => ({ input: 'x'.repeat(320), id }))
  expect(await refusal({ service, inputs: ids })).toEqual([413, 'body_too_large', undefined])
})
