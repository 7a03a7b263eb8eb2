import type { GroupLag } from '../kafka/lag.ts'
import { subscriptionsOf } from '../platform/topics.ts'
import type { Lane } from '../topology.ts'

/** Something that a stage has begun with a message, and finishes before it commits the message. */
export type Owned = {
  /** Unique among everything that is owned at a time. */
  readonly id: string
  readonly stage: 'lookup' | 'settle'
  readonly lane: Lane
}

export type Owners = {
  /**
   * Returns the ids of those whose stage will not finish them. Call it once a run with all that
   * are unfinished: one that is left out is forgotten.
   */
  readonly findOrphans: (owned: readonly Owned[]) => Promise<ReadonlySet<string>>
}

type OwnersDeps = {
  /** The committed offsets and lags of these consumer groups, by partition. */
  readonly readOffsets: (groups: readonly string[]) => Promise<readonly GroupLag[]>
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** A stage that is behind in a partition and commits nothing for so long makes no progress. */
const NO_PROGRESS_MS = 300_000

type Partition = Pick<GroupLag, 'topic' | 'partition'>
const nameOf = ({ topic, partition }: Partition) => `${topic}:${partition}`

/**
 * Finds orphans, without a limit on how slow their owners may be. A stage commits a message only
 * after it has finished everything that it began with it; if it crashes before, the message is
 * delivered again. So nothing is orphaned before its consumer group has committed all messages that
 * were in its topics when it was first seen. If it is unfinished after that, its end was lost, for
 * example because Redis lost its newest writes. A partition without any commit for NO_PROGRESS_MS
 * counts as finished, as its stage is gone or stuck.
 */
export function createOwners ({ readOffsets, now }: OwnersDeps): Owners {
  /** By id, the ends of the partitions when it was first seen. */
  let ends = new Map<string, ReadonlyMap<string, number>>()
  /** By group and partition, the last commit, and since when nothing followed it. */
  const commits = new Map<string, { readonly offset: number, readonly sinceMs: number }>()
  const isStuck = (lag: GroupLag) => {
    const name = `${lag.group} ${nameOf(lag)}`
    const last = commits.get(name)
    if (lag.lag > 0 && last?.offset === lag.offset) return now() - last.sinceMs >= NO_PROGRESS_MS
    commits.set(name, { offset: lag.offset, sinceMs: now() })
    return false
  }
  return {
    findOrphans: async owned => {
      const groups = new Set(owned.map(groupOf))
      if (groups.size === 0) commits.clear()
      const lags = groups.size === 0 ? [] : await readOffsets([...groups])
      const byGroup = Map.groupBy(lags, ({ group }) => group)
      const stuck = new Set(lags.filter(isStuck))
      const seen = ends
      ends = new Map()
      const orphans = new Set<string>()
      for (const one of owned) {
        const partitions = byGroup.get(groupOf(one)) ?? []
        const before = seen.get(one.id)
        ends.set(one.id, before ??
          new Map(partitions.map(lag => [nameOf(lag), lag.offset + lag.lag])))
        const isFinished = (lag: GroupLag) =>
          lag.offset >= (before?.get(nameOf(lag)) ?? 0) || stuck.has(lag)
        if (before !== undefined && partitions.every(isFinished)) orphans.add(one.id)
      }
      return orphans
    },
  }
}

function groupOf ({ stage, lane }: Owned): string {
  const [subscription] = subscriptionsOf(stage, { lanes: [lane] })
  if (subscription === undefined) throw new TypeError(`${stage} reads no topic of lane ${lane}`)
  return subscription.group
}
