import type { Outcome } from '../../jobs/store.ts'

/** How the job of a letter stands, and what sending the letter back can still change. */
export type Standing = { readonly standing: string, readonly replay: string }

/** A contact of a feed belongs to no job yet. */
export const CONTACT_STANDING: Standing = {
  standing: 'no job',
  replay: 'is a new contact of its feed each time: checked, charged and answered as any other',
}

/**
 * Money moves by the tally alone, which gives each row to the first block that brings it, and
 * nothing to a job that has ended: so a replay charges for rows that are open, and for no others.
 */
export function standingOf (outcome: Outcome): Standing {
  if (outcome.kind === 'refused') {
    return { standing: 'refused', replay: 'changes nothing: no job came of it' }
  }
  if (outcome.kind === 'open') {
    return {
      standing: 'unknown',
      replay: 'charges nothing: there is no such job, or it ended more than ten minutes ago',
    }
  }
  const { ended, closed, status: standing } = outcome.job
  if (ended || closed) return { standing, replay: 'charges nothing: the job has ended' }
  return {
    standing, replay: 'can finish rows that are open; all others keep their result and price',
  }
}
