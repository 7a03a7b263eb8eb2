import type { Place } from '../../lib/kafka/lag.ts'
import { rounded } from '../numbers.ts'
import type { Look } from './look.ts'

/** How far a group is, in all it reads or in one partition; null where nobody can tell. */
export type LagLine = {
  readonly stage: string
  readonly group: string
  /** Separated by commas where a group reads several. */
  readonly topic: string
  /** Of one partition: its number. */
  readonly partition: number | null
  readonly partitions: number
  readonly lagMessages: number
  /** Messages finished a second since the look before. */
  readonly messagesPerSecond: number | null
  /** Until nothing is left, if all goes on as since the look before; null when it does not fall. */
  readonly catchUpSeconds: number | null
  readonly oldestSeconds: number | null
  /** Whether operators have paused its stage. */
  readonly paused: boolean | null
}

type Options = { readonly byPartition: boolean, readonly stage?: string | undefined }

/** One line a group, or one a partition, with rates since the look before. */
export function linesOf (
  before: Look | undefined, after: Look, { byPartition, stage }: Options
): readonly LagLine[] {
  const keyOf = ({ group, topic, partition }: Place) =>
    byPartition ? `${group} ${topic} ${partition}` : group
  const old = before && Map.groupBy(before.places, keyOf)
  const meant = after.places.filter(place => stage === undefined || place.stage === stage)
  return [...Map.groupBy(meant, keyOf)].flatMap(([key, places]) => {
    const [first] = places
    if (first === undefined) return []
    const earlier = old?.get(key)
    const seconds = (after.atMs - (before?.atMs ?? after.atMs)) / 1_000
    return [{
      stage: first.stage,
      group: first.group,
      topic: [...new Set(places.map(({ topic }) => topic))].join(', '),
      partition: byPartition ? first.partition : null,
      partitions: places.length,
      ...movement(places, earlier, seconds),
      oldestSeconds: ageIn(after, first.group),
      paused: after.pauses?.some(pause => pause.stage === first.stage) ?? null,
    }]
  })
}

type Movement = Pick<LagLine, 'lagMessages' | 'messagesPerSecond' | 'catchUpSeconds'>

function movement (
  places: readonly Place[], earlier: readonly Place[] | undefined, seconds: number
): Movement {
  const lagMessages = sumOf(places, 'lag')
  if (earlier === undefined || seconds <= 0) {
    return { lagMessages, messagesPerSecond: null, catchUpSeconds: lagMessages === 0 ? 0 : null }
  }
  const finished = Math.max(0, sumOf(places, 'offset') - sumOf(earlier, 'offset'))
  const falling = (sumOf(earlier, 'lag') - lagMessages) / seconds
  const left = falling > 0 ? rounded(lagMessages / falling) : null
  return {
    lagMessages,
    messagesPerSecond: rounded(finished / seconds),
    catchUpSeconds: lagMessages === 0 ? 0 : left,
  }
}

function sumOf (places: readonly Place[], of: 'lag' | 'offset'): number {
  return places.reduce((sum, place) => sum + place[of], 0)
}

function ageIn ({ ages }: Look, group: string): number | null {
  const seconds = ages.get(group)
  return seconds === undefined ? null : rounded(seconds)
}
