/** A complete unit: one message an index, and all messages that are finished with it. */
export type Unit<M> = {
  /** Sorted by index, from 0, each index once. */
  readonly parts: readonly M[]
  /** The parts and every duplicate of one. */
  readonly members: readonly M[]
}

export type Aggregate<M> = {
  /**
   * The unit, once every index of it has come. It stays complete, and is given again when one of
   * its messages is added again, until `done`: a decision that failed finds it still there.
   */
  readonly add: (message: M) => Unit<M> | undefined
  /** Drops the unit this message belongs to. */
  readonly done: (message: M) => void
  /** Drops everything. */
  readonly forget: () => void
  /** All messages of the unit this message belongs to that came so far. */
  readonly membersOf: (message: M) => readonly M[]
}

type Gathering<M> = {
  readonly size: number
  readonly parts: Map<number, M>
  readonly members: Set<M>
}

/**
 * Collects messages until a unit of them is complete. Pure bookkeeping: messages may come in any
 * order, of many units in turn, and more than once; the first message of an index stays its part.
 */
export function createAggregate<M> (
  { unitOf, indexOf, sizeOf }: {
    readonly unitOf: (message: M) => string
    readonly indexOf: (message: M) => number
    readonly sizeOf: (message: M) => number
  }
): Aggregate<M> {
  const units = new Map<string, Gathering<M>>()
  const add = (message: M) => {
    const index = indexOf(message)
    const gathering = units.get(unitOf(message)) ??
      { size: sizeOf(message), parts: new Map<number, M>(), members: new Set<M>() }
    if (!Number.isInteger(index) || index < 0 || index >= gathering.size) {
      throw new RangeError(`index ${index} is outside a unit of ${gathering.size}`)
    }
    units.set(unitOf(message), gathering)
    gathering.members.add(message)
    if (!gathering.parts.has(index)) gathering.parts.set(index, message)
    return gathering.parts.size === gathering.size ? unitFrom(gathering) : undefined
  }
  return {
    add,
    done: message => { units.delete(unitOf(message)) },
    forget: () => units.clear(),
    membersOf: message => [...units.get(unitOf(message))?.members ?? []],
  }
}

function unitFrom<M> ({ parts, members }: Gathering<M>): Unit<M> {
  const sorted = [...parts].sort(([a], [b]) => a - b).map(([, message]) => message)
  return { parts: sorted, members: [...members] }
}
