import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { createConfirm as askOn, type Confirm as Ask } from '../../client/terminal.ts'
import { PAUSABLE_STAGES } from '../../lib/pausable.ts'
import type { StageName } from '../../topology.ts'
import { callOf, paintFor, type Call, type Screen } from '../screen.ts'
import { UsageError } from '../../lib/run-command.ts'
import { effectOf, pausableOf } from './effects.ts'
import { withPauses } from './pauses.ts'
import { pausedText, questionOf, resumedText } from './text.ts'

type Options = { readonly reason?: string, readonly by?: string, readonly yes?: true }

const STAGES_HELP = `Stages: ${PAUSABLE_STAGES.join(', ')}.`

const PAUSE_HELP = `
${STAGES_HELP}
All processes of the stage finish what they have in work and begin nothing further, those that are
started meanwhile as well. Nothing is lost: messages wait in their topics, for 7 days at most, and
no row is charged twice. Processes stay ready, and lag and ages are told as ever. A pause lasts
until "resume"; after an hour the alert StagePaused reminds of it.
Pausing normalize or lookup has new jobs refused by 503, so it is confirmed, or given --yes.

Examples:
  npm run ops -- pause verify --reason "the vendor answers nonsense"
  npm run ops -- pause lookup --yes
  npm run ops -- lag                         shows what is paused`

const RESUME_HELP = `
${STAGES_HELP}
Its processes begin with the oldest messages within about three seconds.

Example:
  npm run ops -- resume verify`

const onTerminal = askOn({ input: process.stdin, output: process.stderr })

/** Replaced by tests. */
type PauseParts = { readonly ask?: Ask, readonly open?: typeof withPauses }

/** Adds `pause`. */
export function addPause (
  program: Command, screen: Screen, { ask = onTerminal, open = withPauses }: PauseParts = {}
): void {
  program.command('pause').description('have a stage begin nothing further, without a restart')
    .argument('<stage>', 'the stage')
    .option('--reason <text>', 'why, for whoever finds it paused')
    .option('--by <name>', 'who pauses it; your name on this machine by default')
    .option('--yes', 'do it without being asked, though customers will notice at once')
    .addHelpText('after', PAUSE_HELP)
    .action(async (name: string, _options: object, command: Command) => {
      const call = callOf<Options>(command)
      const stage = pausableOf(name)
      if (!await isAgreed(stage, call, ask)) return screen.print('Nothing was paused.')
      const { env, json, options: { reason = '', by = ownName() } } = call
      const done = await open(env, pauses => pauses.pause({ stage, by, reason }))
      const { changed, pause } = done
      screen.print(json
        ? JSON.stringify({ paused: true, changed, ...pause })
        : pausedText(done, paintFor(screen.terminal)))
    })
}

/** Adds `resume`. */
export function addResume (program: Command, screen: Screen, open = withPauses): void {
  program.command('resume').description('let a paused stage go on')
    .argument('<stage>', 'the stage')
    .addHelpText('after', RESUME_HELP)
    .action(async (name: string, _options: object, command: Command) => {
      const { env, json } = callOf<object>(command)
      const stage = pausableOf(name)
      const ended = await open(env, pauses => pauses.resume(stage))
      screen.print(json
        ? JSON.stringify({ stage, paused: false, changed: ended !== undefined, ...ended })
        : resumedText(stage, ended, paintFor(screen.terminal)))
    })
}

async function isAgreed (
  stage: StageName, { json, options: { yes } }: Call<Options>, ask: Ask
): Promise<boolean> {
  const { means, refusesJobs } = effectOf(stage)
  if (refusesJobs !== true || yes === true) return true
  if (ask !== undefined && !json) return await ask(questionOf(stage))
  throw new UsageError(`${means}\nNothing was paused. Add --yes to do it.`)
}

/** Containers may run as a user without a name. */
function ownName (): string {
  try {
    return userInfo().username
  } catch {
    return ''
  }
}
