import type { GroupLag } from '../runtime/kafka/lag.ts'
import { subscriptionsOf } from '../runtime/platform/topics.ts'
import type { Lane } from '../topology.ts'

/** Something that a stage has begun with a message, and finishes before it commits the message. */
export type Owned = {
  /** Unique among everything that is owned at a time. */
  readonly id: string
  readonly stage: 'lookup' | 'settle'
  readonly lane: Lane
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
export class Owners {
  readonly #readOffsets: OwnersDeps['readOffsets']
  readonly #now: OwnersDeps['now']
  /** By id, the ends of the partitions when it was first seen. */
  #ends = new Map<string, ReadonlyMap<string, number>>()
  /** By group and partition, the last commit, and since when nothing followed it. */
  readonly #commits = new Map<string, { readonly offset: number, readonly sinceMs: number }>()

  constructor ({ readOffsets, now }: OwnersDeps) {
    this.#readOffsets = readOffsets
    this.#now = now
  }

  /**
   * Returns the ids of those whose stage will not finish them. Call it once a run with all that
   * are unfinished: one that is left out is forgotten.
   */
  async findOrphans (owned: readonly Owned[]): Promise<ReadonlySet<string>> {
    const groups = new Set(owned.map(groupOf))
    if (groups.size === 0) this.#commits.clear()
    const lags = groups.size === 0 ? [] : await this.#readOffsets([...groups])
    const byGroup = Map.groupBy(lags, ({ group }) => group)
    const stuck = new Set(lags.filter(lag => this.#isStuck(lag)))
    const seen = this.#ends
    this.#ends = new Map()
    const orphans = new Set<string>()
    for (const unfinished of owned) {
      const { id } = unfinished
      const partitions = byGroup.get(groupOf(unfinished)) ?? []
      const before = seen.get(id)
      this.#ends.set(id, before ??
        new Map(partitions.map(lag => [nameOf(lag), lag.offset + lag.lag])))
      const isFinished = (lag: GroupLag) =>
        lag.offset >= (before?.get(nameOf(lag)) ?? 0) || stuck.has(lag)
      if (before !== undefined && partitions.every(isFinished)) orphans.add(id)
    }
    return orphans
  }

  #isStuck (lag: GroupLag): boolean {
    const name = `${lag.group} ${nameOf(lag)}`
    const last = this.#commits.get(name)
    if (lag.lag > 0 && last?.offset === lag.offset) {
      return this.#now() - last.sinceMs >= NO_PROGRESS_MS
    }
    this.#commits.set(name, { offset: lag.offset, sinceMs: this.#now() })
    return false
  }
}

function groupOf ({ stage, lane }: Owned): string {
  const [subscription] = subscriptionsOf(stage, { lanes: [lane] })
  if (subscription === undefined) throw new TypeError(`${stage} reads no topic of lane ${lane}`)
  return subscription.group
}
