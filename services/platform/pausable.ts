import { READING_STAGES, type StageName } from '../topology.ts'

/** Hash in the state Redis: the stages that operators have paused. */
export const PAUSED_KEY = 'ops:paused'

/** Stages that can be paused: all that read a topic, except `ledger`, which all money needs. */
export const PAUSABLE_STAGES: readonly StageName[] =
  READING_STAGES.filter(stage => stage !== 'ledger')
