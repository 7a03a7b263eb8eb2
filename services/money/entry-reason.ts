import type { Journal } from '../../schemas/types.ts'

/*
 * The field `reason` of a journal entry has one of these forms:
 * - reserve: JSON of the terms of its job, as accept.lua writes them; a derived entry has none;
 * - topup, adjust: what the operator wrote, or with a note to the customer JSON of both;
 * - settle, void: '', or why ledger derived the entry.
 */

type Entry = Pick<Journal, 'type' | 'reason'>

/** The description of a job in its reserve entry; all values are text. */
export type ReserveTerms = Readonly<Record<string, string>>

/** The terms of the job of a reserve entry; undefined if it has none, and for other entries. */
export function readReserveTerms ({ type, reason }: Entry): ReserveTerms | undefined {
  return type === 'reserve' && reason.startsWith('{')
    ? JSON.parse(reason) as ReserveTerms
    : undefined
}

/** What an operator writes with a top-up or an adjustment. */
type MovementTexts = {
  /** For operators only. */
  readonly reason: string
  /** For the customer. */
  readonly note?: string | undefined
}

/** How JSON of both begins; a reason that begins so is written as JSON, too. */
const BOTH = '{"reason":'

/** Both texts as the `reason` of a journal entry: the reason, or with a note JSON of both. */
export function writeTexts ({ reason, note = '' }: MovementTexts): string {
  return note === '' && !reason.startsWith(BOTH) ? reason : JSON.stringify({ reason, note })
}

/** The text for the customer in a journal entry; '' if there is none. */
export function readNote ({ type, reason }: Entry): string {
  if ((type !== 'topup' && type !== 'adjust') || !reason.startsWith(BOTH)) return ''
  const { note } = JSON.parse(reason) as { readonly note: string }
  return note
}
