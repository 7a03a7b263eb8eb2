import { expect, it } from 'vitest'
import { HeldMessages } from '../../../../services/runtime/engine/held.ts'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'

const messageAt = (partition: number, offset: bigint) =>
  ({ raw: { topic: 'rows', partition, offset } as RawMessage })

it('holds each message of a partition once, until it is removed', () => {
  const held = new HeldMessages<ReturnType<typeof messageAt>>()
  const [first, again, other] = [messageAt(0, 7n), messageAt(0, 7n), messageAt(1, 7n)]
  held.add(first, 3)
  held.add(other, 2)
  held.add(again, 5)
  expect([held.of(first.raw), held.of(other.raw), held.sinceMs()]).toEqual([[again], [other], 2])
  held.remove([other.raw, { ...other.raw, partition: 9 }])
  expect([held.of(other.raw), held.sinceMs()]).toEqual([[], 5])
  held.clear()
  expect(held.of(first.raw)).toEqual([])
})
