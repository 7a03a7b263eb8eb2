import type { Contact } from './contact.ts'

export type BatchRules = {
  /** A batch closes with so many contacts. */
  readonly limit: number
  /** A batch closes this long after its first contact came. */
  readonly ageMs: number
}

/** Contacts of one cursor that are in no job yet, in the order of their offsets. */
export type Batch = {
  readonly add: (contact: Contact, nowMs: number) => void
  /** What is here goes without waiting for more. */
  readonly close: () => void
  /** How long until the batch closes; 0 once it has, Infinity while it is empty. */
  readonly dueInMs: (nowMs: number) => number
  readonly first: (count: number) => readonly Contact[]
  /** Lets go of every contact up to this offset and returns them. */
  readonly passTo: (offset: number) => readonly Contact[]
  readonly size: () => number
}

/** Collects contacts; nothing here knows of jobs or of Kafka. */
export function createBatch ({ limit, ageMs }: BatchRules): Batch {
  let contacts: Contact[] = []
  let arrivals: { readonly upTo: number, readonly atMs: number }[] = []
  let closedUpTo = -1
  return {
    add: (contact, nowMs) => {
      contacts.push(contact)
      // Contacts come many at a time; one moment stands for all of the same millisecond.
      if (arrivals.at(-1)?.atMs === nowMs) arrivals.pop()
      arrivals.push({ upTo: contact.offset, atMs: nowMs })
    },
    close: () => { closedUpTo = contacts.at(-1)?.offset ?? closedUpTo },
    dueInMs: nowMs => {
      const [first] = contacts
      if (first === undefined) return Infinity
      if (contacts.length >= limit || first.offset <= closedUpTo) return 0
      return Math.max(0, (arrivals[0]?.atMs ?? 0) + ageMs - nowMs)
    },
    first: count => contacts.slice(0, count),
    passTo: offset => {
      const at = contacts.findIndex(contact => contact.offset > offset)
      const passed = at < 0 ? contacts : contacts.slice(0, at)
      contacts = at < 0 ? [] : contacts.slice(at)
      arrivals = arrivals.filter(({ upTo }) => upTo > offset)
      return passed
    },
    size: () => contacts.length,
  }
}
