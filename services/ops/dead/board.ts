import type { RawMessage } from '../../lib/bus.ts'
import type { StageName } from '../../topology.ts'
import { letterOf, type Done, type Entry, type Letter } from './letter.ts'
import { noteOf } from './notes.ts'

export type Filter = {
  readonly place?: string | undefined
  readonly reason?: string | undefined
  readonly job?: string | undefined
  readonly tenant?: string | undefined
}

/** Gathers what lies in the dead-letter topic of a stage; contents are not kept. */
export function createBoard (stage: StageName) {
  const letters: Letter[] = []
  const notes = new Map<string, readonly Done[]>()
  return {
    add: (raw: RawMessage): void => {
      const note = noteOf(raw.headers)
      if (note === undefined) letters.push(letterOf(stage, raw))
      else notes.set(note.place, [...notes.get(note.place) ?? [], note.done])
    },
    /** All letters, the longest dead first. */
    entries: (): readonly Entry[] =>
      letters.map(letter => ({ ...letter, done: notes.get(letter.place) ?? [] })),
  }
}

/** A letter nobody has decided about. */
export function isWaiting ({ done }: Entry): boolean {
  return done.length === 0
}

/** Whether a letter is one of those meant; what a filter leaves out does not matter. */
export function matches (entry: Entry, { place, reason, job, tenant }: Filter): boolean {
  const same = (wanted: string | undefined, is: string) => wanted === undefined || wanted === is
  return same(place, entry.place) && same(reason, entry.reason) && same(job, entry.job) &&
    same(tenant, entry.tenant)
}
