import { FeedError } from './feed-topics.ts'

type Named = { readonly reference: string }
type Answer = Named & { readonly resultId: string }

export type Tally = {
  /** Contacts that are about to be sent. */
  readonly expect: (contacts: readonly Named[]) => void
  /** False for a result that nobody waits for: a repeat, or one of another sender. */
  readonly answer: (result: Answer) => boolean
  readonly counts: () => { readonly sent: number, readonly results: number }
  readonly repeated: () => number
  /** Resolves once few enough contacts are without an answer. */
  readonly room: () => Promise<void>
  /** Resolves once every contact has its answer. */
  readonly complete: () => Promise<void>
  /** Ends every wait with an error. */
  readonly fail: (error: unknown) => void
}

/**
 * Counts answers against contacts by their references. A reference that was sent several times
 * waits for as many results, told apart by their ids.
 */
export function createTally (
  { mostUnanswered, silenceMs }: { readonly mostUnanswered: number, readonly silenceMs: number }
): Tally {
  const take = createMatches()
  const counts = { sent: 0, results: 0, repeated: 0 }
  const waits = createWaits(silenceMs, () => counts)
  return {
    expect: contacts => {
      for (const { reference } of contacts) take.expect(reference)
      counts.sent += contacts.length
    },
    answer: result => {
      const isNew = take.answer(result)
      counts[isNew ? 'results' : 'repeated']++
      waits.settle()
      return isNew
    },
    counts: () => ({ sent: counts.sent, results: counts.results }),
    repeated: () => counts.repeated,
    room: () => waits.until(mostUnanswered),
    complete: () => waits.until(0),
    fail: waits.fail,
  }
}

/** Which results are awaited, by reference; ids are kept only where one reference has several. */
function createMatches () {
  const open = new Map<string, number>()
  const seen = new Map<string, Set<string>>()
  return {
    expect: (reference: string) => { open.set(reference, (open.get(reference) ?? 0) + 1) },
    answer: ({ reference, resultId }: Answer): boolean => {
      const left = open.get(reference) ?? 0
      const others = seen.get(reference)
      if (left === 0 || others?.has(resultId) === true) return false
      if (left > 1 || others !== undefined) seen.set(reference, (others ?? new Set()).add(resultId))
      if (left > 1) open.set(reference, left - 1)
      else open.delete(reference)
      return true
    },
  }
}

type Counts = { readonly sent: number, readonly results: number }

/** Who waits for how few contacts without an answer. */
type Waiting = {
  readonly atMost: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Waits until few enough are missing; they all fail when no result comes for too long. */
function createWaits (silenceMs: number, counts: () => Counts) {
  const waiting = new Set<Waiting>()
  let failure: unknown
  const missing = () => counts().sent - counts().results
  const settle = () => {
    for (const one of waiting) {
      if (failure === undefined && missing() > one.atMost) continue
      waiting.delete(one)
      if (failure === undefined) one.resolve()
      else one.reject(failure)
    }
  }
  const fail = (error: unknown) => {
    failure ??= error
    settle()
  }
  const until = async (atMost: number) => {
    let before = counts().results
    const timer = setInterval(() => {
      if (counts().results === before) fail(silence(missing(), silenceMs))
      before = counts().results
    }, silenceMs)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waiting.add({ atMost, resolve, reject })
    settle()
    await promise.finally(() => clearInterval(timer))
  }
  return { settle, fail, until }
}

function silence (missing: number, silenceMs: number): FeedError {
  return new FeedError(`No result came for ${Math.round(silenceMs / 1_000)} s; ${missing} are ` +
    'missing. A feed waits while its organization has too little balance or ten jobs under way ' +
    '("npm run workspace -- balance"); what was sent is kept, and its results will follow.')
}
