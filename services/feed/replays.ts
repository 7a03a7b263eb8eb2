import type { Mark, Marks, MarksChange } from './marks.ts'

/** What the seal of a contact proves: who sent it, and after which other ones. */
export type Stamp = { readonly sender: string } & Mark

/** `crowded`: the partition has too many senders for one more. */
export type Verdict = 'fresh' | 'replayed' | 'crowded'

export type ReplayGuardParts = {
  readonly marks: Marks
  /** As `MarkStore.write`. */
  readonly write: (change: MarksChange) => Promise<boolean>
  /** Milliseconds since 1970, by the clock that all processes share. */
  readonly now: () => number
}

/** Recognizes contacts of one partition that were there before. */
export type ReplayGuard = {
  /** Everything up to this offset was finished before the guard was made. */
  readonly finishedTo: number
  /** Judges an authentic contact; contacts are judged once each, in the order of their offsets. */
  readonly judge: (offset: number, stamp: Stamp) => Verdict
  /**
   * Makes the marks durable as of an offset up to which everything is finished. Resolves to false
   * when the stored marks were lost: the partition is to be opened again.
   */
  readonly save: (offset: number) => Promise<boolean>
}

const DAY_MS = 86_400_000
/** A day longer than a contact is accepted: what is forgotten can't come back. */
export const FORGET_AFTER_MS = 8 * DAY_MS
/** Bounds the memory that one partner takes. */
export const MAX_SENDERS = 100_000

/**
 * A contact is fresh when its sequence is above its sender's mark, so which contacts are fresh
 * follows from the log alone. The marks at the read head are in memory; stored are those as of the
 * offset that is committed next; the next process to open the partition judges from there.
 */
export function createReplayGuard ({ marks: stored, write, now }: ReplayGuardParts): ReplayGuard {
  const marks = new Map(stored.senders)
  const unsaved: { readonly offset: number, readonly sender: string, readonly mark: Mark }[] = []
  let savedTo = stored.offset
  return {
    finishedTo: stored.offset,
    judge: (offset, { sender, sequence, sentAt }) => {
      const mark = marks.get(sender)
      if (mark === undefined && marks.size >= MAX_SENDERS) return 'crowded'
      if (mark !== undefined && sequence <= mark.sequence) return 'replayed'
      const next = { sequence, sentAt: Math.max(sentAt, mark?.sentAt ?? sentAt) }
      marks.set(sender, next)
      unsaved.push({ offset, sender, mark: next })
      return 'fresh'
    },
    save: async offset => {
      if (offset <= savedTo) return true
      const later = unsaved.findIndex(one => one.offset > offset)
      const folded = unsaved.splice(0, later < 0 ? unsaved.length : later)
      const isOld = ({ sentAt }: Mark) => sentAt < now() - FORGET_AFTER_MS
      const forgotten = [...marks].filter(([, mark]) => isOld(mark)).map(([sender]) => sender)
      for (const sender of forgotten) marks.delete(sender)
      const changed = new Map(folded.filter(({ mark }) => !isOld(mark))
        .map(({ sender, mark }) => [sender, mark]))
      const since = savedTo
      savedTo = offset
      return await write({ since, offset, changed, forgotten })
    },
  }
}
