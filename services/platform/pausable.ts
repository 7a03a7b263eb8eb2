import { READING_STAGES, type StageName } from '../topology.ts'

/** Hash in the Redis that keeps state: what operators have paused, by stage. */
export const PAUSED_KEY = 'ops:paused'

/** Stages that can be paused: all that read a topic, but the one that money stands on. */
export const PAUSABLE_STAGES: readonly StageName[] =
  READING_STAGES.filter(stage => stage !== 'ledger')
