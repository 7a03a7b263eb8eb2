/** A complete unit: one message per index. */
export type Unit<M> = {
  /** Sorted by index, from 0, each index once. */
  readonly messages: readonly M[]
  /** All messages, duplicates included. */
  readonly members: readonly M[]
}

export type Aggregate<M> = {
  /**
   * Adds a message; returns its unit once it is complete. The unit stays until `remove`, and is
   * returned again for a duplicate: so a failed decision can be retried.
   */
  readonly add: (message: M) => Unit<M> | undefined
  /** Drops the unit of this message. */
  readonly remove: (message: M) => void
  /** Drops all units. */
  readonly clear: () => void
  /** All messages so far of the unit of this message. */
  readonly membersOf: (message: M) => readonly M[]
}

type PartialUnit<M> = {
  readonly size: number
  readonly byIndex: Map<number, M>
  readonly members: Set<M>
}

/**
 * Collects messages until their unit is complete. Messages of many units may arrive in any order
 * and repeatedly; the first message of an index counts.
 */
export function createAggregate<M> (
  { unitOf, indexOf, sizeOf }: {
    readonly unitOf: (message: M) => string
    readonly indexOf: (message: M) => number
    readonly sizeOf: (message: M) => number
  }
): Aggregate<M> {
  const units = new Map<string, PartialUnit<M>>()
  const add = (message: M) => {
    const index = indexOf(message)
    const unit = units.get(unitOf(message)) ??
      { size: sizeOf(message), byIndex: new Map<number, M>(), members: new Set<M>() }
    if (!Number.isInteger(index) || index < 0 || index >= unit.size) {
      throw new RangeError(
        `index ${index} of unit ${unitOf(message)} is invalid: it has ${unit.size} messages`)
    }
    units.set(unitOf(message), unit)
    unit.members.add(message)
    if (!unit.byIndex.has(index)) unit.byIndex.set(index, message)
    return unit.byIndex.size === unit.size ? completeUnit(unit) : undefined
  }
  return {
    add,
    remove: message => { units.delete(unitOf(message)) },
    clear: () => units.clear(),
    membersOf: message => [...units.get(unitOf(message))?.members ?? []],
  }
}

function completeUnit<M> ({ byIndex, members }: PartialUnit<M>): Unit<M> {
  const sorted = [...byIndex].sort(([a], [b]) => a - b).map(([, message]) => message)
  return { messages: sorted, members: [...members] }
}
