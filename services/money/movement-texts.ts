import type { Journal } from '../../schemas/types.ts'

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
export function readNote ({ type, reason }: Pick<Journal, 'type' | 'reason'>): string {
  if ((type !== 'topup' && type !== 'adjust') || !reason.startsWith(BOTH)) return ''
  const { note } = JSON.parse(reason) as { readonly note: string }
  return note
}
