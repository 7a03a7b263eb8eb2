import type { LaterCheck } from '../provider.ts'
import type { Meaning } from './replies.ts'

/** The result for a mailbox; `late`: it was not asked, or did not answer, in time. */
export type Mailbox =
  | Exclude<Meaning, 'limited'> | 'unreachable' | 'no_answer' | 'late'

/** The host answers the same to everything. */
export const UNTRUTHFUL = { mailbox: 'accepted', acceptance: 'accepts_any' } as const

export type Probed = {
  readonly mailbox: Mailbox
  /** Only words of the reply say so, and no enhanced code. */
  readonly byWords?: true
  /** Whether the domain accepts mail for any name; undefined if unknown. */
  readonly catchAll?: boolean | undefined
  /** What acceptance means at a host whose ways are known, which is not tested for catch-all. */
  readonly acceptance?: 'truthful' | 'accepts_any'
  /** A later question may have a better result. */
  readonly retry?: true | LaterCheck
}
