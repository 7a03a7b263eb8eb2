import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import type { OutgoingMessage, Producer } from '../../../../services/runtime/kafka/bus.ts'
import { createDeadLetters } from '../../../../services/runtime/engine/dead-letters.ts'
import { UnsendableError } from '../../../../services/runtime/kafka/safe-producer.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { rawMessage } from './engine-bench.ts'

/** Dead letters of feed, which has no limit of them. */
const deadLettersTo = (send: Producer['send']) => createDeadLetters({
  stage: 'feed',
  producer: () => ({ send, close: async () => {} }),
  metrics: createMetrics(),
  limit: Infinity,
  now: () => 0,
})

it('dead letters too large for the broker are sent without value, others unchanged', async () => {
  const written: OutgoingMessage[] = []
  const bytesOf = ({ key, value, headers }: OutgoingMessage) =>
    key.length + (value?.length ?? 0) + JSON.stringify(headers).length
  const letters = deadLettersTo(async messages => {
    if (messages.some(message => bytesOf(message) > 1_000_000)) {
      throw new UnsendableError('too large')
    }
    written.push(...messages)
  })
  const large = Buffer.alloc(1_000_000)
  const raws = [
    rawMessage(0), { ...rawMessage(1), value: large }, { ...rawMessage(2), key: large },
    { ...rawMessage(3), headers: { own: large.toString() } },
  ]
  await letters.send([raws.map(raw => ({ raw, reason: 'no way', cause: 'failed' }))])
  const sorted = written.toSorted((a, b) =>
    Number(a.headers.dead_offset) - Number(b.headers.dead_offset))
  expect(sorted.map(({ key, value }) => [key, value === null])).toEqual([
    ['key0', false], ['key1', true], ['rows.submitted.small:0:2', true], ['key3', true],
  ])
  expect(sorted.map(({ headers }) => headers.dead_value))
    .toEqual([undefined, ...new Array(3).fill('left out, too large')])
  expect(sorted.map(({ headers }) => headers.dead_reason)).toEqual(new Array(4).fill('no way'))
  expect([sorted[1]?.headers.tenant, sorted[3]?.headers.own]).toEqual(['t', undefined])
})

it('nothing is kept of dead letters without a limit, whose headers partners choose', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const letters = deadLettersTo(async () => {})
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let offset = 0; offset < 60; offset++) {
    const raw = { ...rawMessage(offset), headers: { job: String(offset).padEnd(1_000_000) } }
    await letters.send([[{ raw, reason: 'undecodable', cause: 'unreadable' }]])
  }
  collectGarbage()
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(20_000_000)
})
