import { PAUSABLE_STAGES } from '../../lib/pausable.ts'
import { STAGES, type StageName } from '../../topology.ts'
import { UsageError } from '../../lib/run-command.ts'

/** What a pause of a stage means, in sentences. */
export type Effect = {
  readonly means: string
  /** Customers are refused because of it, so it is asked for twice. */
  readonly refusesJobs?: true
}

const REFUSES = 'While it lasts, new jobs are answered by 503, after 25 s or at once when others ' +
  'wait already; nothing is charged or reserved for them. Jobs that were accepted before go on.'

const EFFECTS: Readonly<Partial<Record<StageName, Effect>>> = {
  feed: {
    means: 'Contacts of partners wait in their topics, and no further job is made of them. Jobs ' +
      'that exist go on.',
  },
  normalize: { means: REFUSES, refusesJobs: true },
  lookup: { means: REFUSES, refusesJobs: true },
  verify: {
    means: 'Nothing further is asked of a provider. Jobs are still accepted and their maximum is ' +
      'reserved; rows that need a live check wait, and so does the end of their jobs.',
  },
  settle: {
    means: 'Checks go on, and their results wait to be stored: no job ends, is charged or has ' +
      'results to read.',
  },
  deliver: {
    means: 'No webhook is sent, nor one sent again; attempts that come due wait. Customers who ' +
      'poll see their jobs end.',
  },
  publish: {
    means: 'Partners of feeds get no results. They wait, and jobs end as ever.',
  },
}

/** What pausing that stage means. */
export function effectOf (stage: StageName): Effect {
  return EFFECTS[stage] ?? { means: '' }
}

/** Why some stages are never paused. */
const REFUSALS: Readonly<Partial<Record<StageName, string>>> = {
  ingest: 'ingest reads no topic, so there is nothing to pause. To take no requests, scale it to ' +
    '0.',
  ledger: 'ledger is never paused: it keeps the journal of all money, closes jobs that were left ' +
    'open and tells whether money is safe.',
}

/**
 * The stage of that name, if it can be paused.
 * @throws UsageError with the reason when it can't be, or there is none.
 */
export function pausableOf (name: string): StageName {
  const stage = STAGES.find(known => known === name)
  if (stage !== undefined && PAUSABLE_STAGES.includes(stage)) return stage
  const why = stage === undefined
    ? `There is no stage ${name}.`
    : REFUSALS[stage] ?? `${stage} cannot be paused.`
  throw new UsageError(`${why} Those that can be paused are ${PAUSABLE_STAGES.join(', ')}.`)
}
