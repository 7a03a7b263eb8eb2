import type { Redis } from 'ioredis'
import { createConfirm } from '../client/terminal.ts'
import { PAUSED_KEY } from '../runtime/engine/pause.ts'
import { operatorName } from '../runtime/platform/command-environment.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import type { Paint } from '../runtime/platform/text-table.ts'
import { PAUSABLE_STAGES, type StageName, STAGES } from '../topology.ts'
import {
  type AdminCommand, type CommandCall, type Context, runAndPrint,
} from './command-line.ts'
import { withState } from './deps.ts'

type Options = { readonly reason?: string, readonly by?: string, readonly yes?: true }

const STAGES_HELP = `Stages: ${PAUSABLE_STAGES.join(', ')}.`

const PAUSE_HELP = `
${STAGES_HELP}
All processes of the stage, including ones that start later, complete their current work and start
nothing new. Nothing is lost: messages wait in their topics for up to 7 days, and no row is charged
twice. Processes stay ready and keep reporting lag and ages. A pause lasts until "resume"; after an
hour the alert StagePaused fires.
While normalize or lookup is paused, new jobs are rejected with 503. Pausing them needs confirmation
or --yes. "lag" shows which stages are paused.`

const RESUME_HELP = `
${STAGES_HELP}
Its processes continue with the oldest messages within about three seconds.`

/** Adds `pause`. */
export function addPause (program: AdminCommand, context: Context): void {
  program.command('pause').description('stop a stage from starting new work, without a restart')
    .records('stage.paused')
    .argument('<stage>', 'the stage')
    .option('--reason <text>', 'the reason, for other operators')
    .option('--by <name>', 'the operator; your user name on this machine by default')
    .option('--yes', 'confirm a pause that rejects new jobs')
    .addHelpText('after', PAUSE_HELP)
    .example('verify --reason "the vendor returns invalid results"')
    .example('lookup --yes')
    .action(runAndPrint<Options>(context, async (call, paint) => {
      const { words: [name = ''], env, options: { reason = '', by = operatorName() } } = call
      const stage = parsePausableStage(name)
      if (!await isConfirmed(stage, call, context)) {
        return { data: {}, text: 'Nothing was paused.', described: { outcome: 'refused' } }
      }
      const result = await withState(env, redis =>
        createPauses(redis).pause({ stage, by, reason }))
      const { changed, pause } = result
      return { data: { paused: true, changed, ...pause }, text: pausedText(result, paint) }
    }))
}

/** Adds `resume`. */
export function addResume (program: AdminCommand, context: Context): void {
  program.command('resume').description('end the pause of a stage')
    .records('stage.resumed')
    .argument('<stage>', 'the stage')
    .addHelpText('after', RESUME_HELP)
    .example('verify')
    .action(runAndPrint(context, async ({ words: [name = ''], env }, paint) => {
      const stage = parsePausableStage(name)
      const ended = await withState(env, redis => createPauses(redis).resume(stage))
      const text = ended === undefined
        ? `${stage} was not paused. Nothing was changed.`
        : `${paint('green', `${stage} resumes`)} within about three seconds. It was paused` +
          `${formatDetails(ended)}.`
      return { data: { stage, paused: false, changed: ended !== undefined, ...ended }, text }
    }))
}

async function isConfirmed (
  stage: StageName, { json, options: { yes } }: CommandCall<Options>, { input, errors }: Context
): Promise<boolean> {
  const { description = '', rejectsJobs } = EFFECTS[stage] ?? {}
  if (rejectsJobs !== true || yes === true) return true
  const confirm = createConfirm({ input, output: errors })
  const question = `${description}\nPause ${stage}? [y/N] `
  if (confirm !== undefined && !json) return await confirm(question)
  throw new UsageError(`${description}\nNothing was paused. Add --yes to pause ${stage}.`)
}

/** The effect of pausing a stage. */
type Effect = {
  readonly description: string
  /** New jobs are rejected, so the operator must confirm the pause. */
  readonly rejectsJobs?: true
}

const REJECTS_JOBS = 'During the pause new jobs are rejected with 503: after 25 s, or at once if ' +
  'others are waiting. Nothing is charged or reserved for them. Accepted jobs continue.'

const EFFECTS: Readonly<Partial<Record<StageName, Effect>>> = {
  feed: {
    description: 'Contacts of partners wait in their topics and become no further jobs. Existing ' +
      'jobs continue.',
  },
  normalize: { description: REJECTS_JOBS, rejectsJobs: true },
  lookup: { description: REJECTS_JOBS, rejectsJobs: true },
  verify: {
    description: 'No further request goes to a provider. Jobs are still accepted and their ' +
      'maximum price is reserved; rows that need a live check wait, and their jobs do not end.',
  },
  settle: {
    description: 'Checks continue, but their results are not stored: no job ends, is charged or ' +
      'has readable results.',
  },
  deliver: {
    description: 'No webhook is sent or resent; due attempts wait. Customers who poll see their ' +
      'jobs end.',
  },
  publish: {
    description: 'Partners of feeds receive no results. The results wait, and jobs end as usual.',
  },
}

/** Why some stages cannot be paused. */
const NOT_PAUSABLE: Readonly<Partial<Record<StageName, string>>> = {
  ingest: 'ingest reads no topic, so it cannot be paused. To stop requests, scale it to 0.',
  ledger: 'ledger cannot be paused: it stores the journal of all money, closes stalled jobs and ' +
    'detects inconsistent balances.',
}

function parsePausableStage (name: string): StageName {
  const stage = STAGES.find(stage => stage === name)
  if (stage !== undefined && PAUSABLE_STAGES.includes(stage)) return stage
  const problem = stage === undefined
    ? `Stage ${name} does not exist.`
    : NOT_PAUSABLE[stage] ?? `${stage} cannot be paused.`
  throw new UsageError(`${problem} The stages that can be paused are: ` +
    `${PAUSABLE_STAGES.join(', ')}.`)
}

function formatDetails ({ since, by, reason }: Pause): string {
  return [
    since === '' ? '' : ` since ${since}`,
    by === '' ? '' : ` by ${by}`,
    reason === '' ? '' : `: ${reason}`,
  ].join('')
}

const resumeHint = (stage: StageName) => `Resume it with "npm run admin -- resume ${stage}".`

/** Formats a pause as a line: since when, by whom, why, and how to resume. */
export function pauseLine (pause: Pause, paint: Paint): string {
  const { stage } = pause
  return `${paint('yellow', `${stage} is paused`)}${formatDetails(pause)}. ${resumeHint(stage)}`
}

function pausedText (
  { changed, pause }: { readonly changed: boolean, readonly pause: Pause }, paint: Paint
): string {
  const { stage } = pause
  if (!changed) {
    return `${paint('yellow', `${stage} was already paused`)}${formatDetails(pause)}. ` +
      'Nothing was changed.'
  }
  return [
    `${paint('yellow', `${stage} is paused`)}. ${EFFECTS[stage]?.description}`,
    'Its processes pause within about two seconds, complete their current work and stay ready.',
    'Messages wait in their topics for up to 7 days; ' +
      `"npm run admin -- lag --stage ${stage}" shows how many.`,
    resumeHint(stage),
  ].join('\n')
}

/** A stage that an operator has paused. */
export type Pause = {
  readonly stage: StageName
  /** ISO 8601, from the clock of Redis. */
  readonly since: string
  readonly by: string
  /** Empty when none was given. */
  readonly reason: string
}

type PauseRedis = Pick<Redis, 'hdel' | 'hget' | 'hgetall' | 'hsetnx' | 'time'>

/** Reads and changes the pauses in the state Redis. */
export function createPauses (redis: PauseRedis) {
  const find = async (stage: StageName) => {
    const text = await redis.hget(PAUSED_KEY, stage)
    return text === null ? undefined : parsePause(stage, text)
  }
  /** Leaves an existing pause unchanged and returns it with `changed: false`. */
  const pause = async (
    request: Omit<Pause, 'since'>
  ): Promise<{ readonly changed: boolean, readonly pause: Pause }> => {
    const { stage, by, reason } = request
    const [seconds] = await redis.time()
    const since = new Date(Number(seconds) * 1_000).toISOString()
    const text = JSON.stringify({ since, by, reason })
    const changed = await redis.hsetnx(PAUSED_KEY, stage, text) === 1
    const current = await find(stage)
    // Another operator resumed the stage concurrently.
    return current === undefined ? await pause(request) : { changed, pause: current }
  }
  return {
    /** All pauses, in the order of the pipeline. */
    read: async (): Promise<readonly Pause[]> => {
      const texts = await redis.hgetall(PAUSED_KEY)
      return STAGES.flatMap(stage => {
        const text = texts[stage]
        return text === undefined ? [] : [parsePause(stage, text)]
      })
    },
    pause,
    /** Returns the pause that ended; undefined when the stage was not paused. */
    resume: async (stage: StageName): Promise<Pause | undefined> => {
      const ended = await find(stage)
      return await redis.hdel(PAUSED_KEY, stage) === 1 ? ended : undefined
    },
  }
}

/** Any value pauses the stage, including one that an operator wrote by hand. */
function parsePause (stage: StageName, text: string): Pause {
  const { since = '', by = '', reason = '' } = parseFields(text)
  return { stage, since: String(since), by: String(by), reason: String(reason) }
}

function parseFields (text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}
