import type { OutgoingMessage, RawMessage } from '../../lib/bus.ts'
import { deadTopic } from '../../lib/topics.ts'
import type { StageName } from '../../topology.ts'
import type { Done } from './letter.ts'

type Headers = RawMessage['headers']
export type Note = { readonly place: string, readonly done: Done }

/**
 * What was decided about a letter is noted behind it, in the dead-letter topic itself: a message
 * without content, whose headers say about which letter (`done_of`), what (`done_as`), when and
 * why. So it needs no store of its own, lives as long as the letter, and nothing that is lost
 * elsewhere brings a letter back. Reading the topic to its end tells what is still waiting.
 */
export function noteMessage (stage: StageName, { place, done }: Note): OutgoingMessage {
  return {
    topic: deadTopic(stage),
    key: place,
    value: null,
    headers: {
      done_of: place,
      done_as: done.as,
      done_at: new Date(done.atMs).toISOString(),
      done_why: done.why,
    },
  }
}

/**
 * The note that a message of a dead-letter topic is; undefined for letters. A letter has what it
 * died of in its headers, whatever else its sender has put there: it can't pose as a note.
 */
export function noteOf (headers: Headers): Note | undefined {
  const { done_of: place, done_as: as, done_at: at = '', done_why: why = '' } = headers
  if (place === undefined || 'dead_stage' in headers) return undefined
  if (as !== 'replayed' && as !== 'discarded') return undefined
  return { place, done: { as, atMs: Date.parse(at), why } }
}
