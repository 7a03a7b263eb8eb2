import { UsageError } from '../../lib/run-command.ts'
import type { From } from './from.ts'

/** How a partition stands, and the first offset from the time that is meant, if one is. */
export type Standing = {
  readonly topic: string
  readonly partition: number
  readonly low: number
  readonly high: number
  /** What the group does next; `low` when it never committed. */
  readonly next: number
  readonly atTime?: number | undefined
}

export type Move = {
  readonly topic: string
  readonly partition: number
  readonly next: number
  readonly to: number
  /** So many are read again. */
  readonly messages: number
}

/**
 * Which partitions go back, and how far. None ever goes forward, as that would leave rows undone.
 * @throws UsageError when an offset is not there, or would skip messages.
 */
export function movesOf (standings: readonly Standing[], from: From): readonly Move[] {
  if (from.kind === 'offset') standings.forEach(standing => checkOffset(standing, from.offset))
  return standings.flatMap(({ topic, partition, low, next, atTime = next }) => {
    const wanted = { beginning: low, offset: from.kind === 'offset' ? from.offset : low }
    const to = Math.max(low, from.kind === 'time' ? atTime : wanted[from.kind])
    return to >= next ? [] : [{ topic, partition, next, to, messages: next - to }]
  })
}

function checkOffset ({ topic, partition, low, next }: Standing, offset: number): void {
  const where = `partition ${partition} of ${topic}`
  if (offset < low) {
    throw new UsageError(`The oldest message still kept in ${where} is ${low}.`)
  }
  if (offset > next) {
    throw new UsageError(`The group is at ${next} in ${where}: to go on at ${offset} would leave ` +
      `${offset - next} messages undone. It only goes back.`)
  }
}
