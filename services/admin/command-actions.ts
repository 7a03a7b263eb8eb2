import type { CommandActions } from '../access-log/commands.ts'

/** What the commands of operators are recorded as in the access log. */
export const OPS_ACTIONS: CommandActions = {
  lag: null,
  jobs: null,
  pause: 'stage.paused',
  resume: 'stage.resumed',
  cells: null,
  // Without --yes it only shows the plan.
  replay: ({ yes }) => yes === true ? { action: 'stage.replayed' } : null,
  drain: null,
  'dead list': null,
  'dead show': ({ open }) => open === true ? { action: 'letters.opened' } : null,
  'dead replay': 'letters.replayed',
  'dead discard': 'letters.discarded',
  'journal restore': 'journal.restored',
  // The workspace program does it.
  audit: null,
}
