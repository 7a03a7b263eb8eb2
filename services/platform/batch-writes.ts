import { setImmediate as turnOfLoop } from 'node:timers/promises'

type Caller<T> = {
  readonly items: readonly T[]
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Larger writes gain nothing and are held in memory for longer. */
const ITEMS_A_WRITE = 500

/**
 * Lets callers share writes whose number matters, not their size: what comes while one is under way
 * is in the next, one after another. Each caller hears of its own items when they are written. A
 * write of several callers that fails is tried for each of them alone, so that nobody's items keep
 * others from being written.
 */
export function batchWrites<T> (
  write: (items: readonly T[]) => Promise<void>, itemsAWrite = ITEMS_A_WRITE
): (items: readonly T[]) => Promise<void> {
  const waiting: Caller<T>[] = []
  let isWriting = false
  const writeAll = async () => {
    isWriting = true
    // Those who ask in this very moment share the first write.
    await turnOfLoop()
    while (waiting.length > 0) await writeFor(write, nextOf(waiting, itemsAWrite))
    isWriting = false
  }
  return async items => {
    const written = new Promise<void>((resolve, reject) => {
      waiting.push({ items, resolve, reject })
    })
    // It never rejects: a failure is told to those whose items it is about.
    if (!isWriting) writeAll().catch(() => {})
    await written
  }
}

/** Takes callers for one write off the front: at least one, however much it brings. */
function nextOf<T> (waiting: Caller<T>[], itemsAWrite: number): readonly Caller<T>[] {
  let items = 0
  const tooMany = waiting.findIndex((caller, index) => {
    items += caller.items.length
    return index > 0 && items > itemsAWrite
  })
  return waiting.splice(0, tooMany < 0 ? waiting.length : tooMany)
}

async function writeFor<T> (
  write: (items: readonly T[]) => Promise<void>, callers: readonly Caller<T>[]
): Promise<void> {
  try {
    await write(callers.flatMap(({ items }) => items))
    for (const { resolve } of callers) resolve()
  } catch (error) {
    const [first] = callers
    if (callers.length === 1) first?.reject(error)
    else await Promise.all(callers.map(caller => writeFor(write, [caller])))
  }
}
