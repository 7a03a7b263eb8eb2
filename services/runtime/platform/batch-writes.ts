import { setImmediate } from 'node:timers/promises'

type Caller<T> = {
  readonly items: readonly T[]
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Larger writes are not faster and hold memory for longer. */
const MAX_ITEMS = 500

/** The items in batches of this size, in order; the last one has what is left. */
export function * splitBatches<T> (items: readonly T[], size: number): Generator<readonly T[]> {
  for (let from = 0; from < items.length; from += size) yield items.slice(from, from + size)
}

/**
 * Batches the items of concurrent callers into shared writes, one at a time: items that arrive
 * during a write go into the next. Each caller is resolved or rejected for its own items. A failed
 * write of several callers is repeated for each caller alone, so that invalid items of one caller
 * do not fail the others.
 */
export function batchWrites<T> (
  write: (items: readonly T[]) => Promise<unknown>, maxItems = MAX_ITEMS
): (items: readonly T[]) => Promise<void> {
  const waiting: Caller<T>[] = []
  let isWriting = false
  const writeAll = async () => {
    isWriting = true
    // All callers of the same iteration of the event loop share the first write.
    await setImmediate()
    while (waiting.length > 0) await writeFor(write, takeNext(waiting, maxItems))
    isWriting = false
  }
  return async items => {
    const { promise: written, resolve, reject } = Promise.withResolvers<void>()
    waiting.push({ items, resolve, reject })
    // It never rejects: a failure rejects the callers of its items.
    if (!isWriting) writeAll().catch(() => {})
    await written
  }
}

/**
 * Batches the questions of concurrent callers into shared reads, as `batchWrites` does with writes.
 * `read` returns the answers in the order of the questions; one may be a rejection.
 */
export function batchReads<Q, A> (
  read: (questions: readonly Q[]) => Promise<readonly (A | Promise<A>)[]>, maxQuestions = MAX_ITEMS
): (question: Q) => Promise<A> {
  type Asked = { readonly question: Q, readonly resolve: (answer: A | Promise<A>) => void }
  const readAll = batchWrites<Asked>(async asked => {
    const answers = await read(asked.map(({ question }) => question))
    for (const [index, { resolve }] of asked.entries()) resolve(answers[index] as A)
  }, maxQuestions)
  return async question => {
    const answer = Promise.withResolvers<A>()
    await readAll([{ question, resolve: answer.resolve }])
    return await answer.promise
  }
}

/** Takes the callers of the next write from the queue: at least one, however many items it has. */
function takeNext<T> (waiting: Caller<T>[], maxItems: number): readonly Caller<T>[] {
  let items = 0
  const tooMany = waiting.findIndex((caller, index) => {
    items += caller.items.length
    return index > 0 && items > maxItems
  })
  return waiting.splice(0, tooMany < 0 ? waiting.length : tooMany)
}

async function writeFor<T> (
  write: (items: readonly T[]) => Promise<unknown>, callers: readonly Caller<T>[]
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
