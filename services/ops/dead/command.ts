import type { Command } from 'commander'
import { commandEnvironment } from '../../lib/command-environment.ts'
import { UsageError } from '../../lib/run-command.ts'
import { READING_STAGES } from '../../topology.ts'
import { discard, replay } from './decide.ts'
import { list, show } from './look.ts'
import { choiceOf, filterOf, placeIn, stageOf, type Options } from './options.ts'
import { withDeadLetters, type DeadParts } from './parts.ts'
import { decidedText, fieldsText, listText } from './text.ts'

export type Print = (text: string) => void
type Global = { readonly json?: true, readonly data: string }
/** Does what a command says, and tells it as data and as a text. */
type Answer = { readonly data: object, readonly text: string }
type Words = { readonly names: readonly (string | undefined)[], readonly options: Options }
type Task = (parts: DeadParts, words: Words) => Promise<Answer>

const EXAMPLES = `
Examples:
  npm run ops -- dead list --stage verify
  npm run ops -- dead show verify 0:12
  npm run ops -- dead replay verify 0:12
  npm run ops -- dead discard verify 0:12 --reason "a test"`

/** Adds `dead` and its commands; `print` takes what they show. */
export function addDead (program: Command, print: Print, open = withDeadLetters): void {
  const dead = program.command('dead')
    .description('messages that a stage could not process, in <stage>.dead for 30 days')
    .addHelpText('after', EXAMPLES)
  const perform = (task: Task) => async (...given: unknown[]) => {
    const command = given.at(-1) as Command
    const { json, data: folder, ...options } = command.optsWithGlobals<Global & Options>()
    const env = commandEnvironment(process.env, folder)
    const names = command.args
    const { data, text } = await open(env, parts => task(parts, { names, options }))
    print(json === true ? JSON.stringify(data) : text)
  }
  addLooks(dead, perform)
  addDecisions(dead, perform)
}

type Perform = (task: Task) => (...given: unknown[]) => Promise<void>

const PLACE = '[letter]'
const PLACE_TEXT = 'partition:offset, as "list" shows it; or choose by options'

function addLooks (dead: Command, perform: Perform): void {
  const stages = READING_STAGES.join(', ')
  dead.command('list').description('show letters that wait, and how many of each stage')
    .option('--stage <stage>', `only of this stage: ${stages}`)
    .option('--reason <reason>', 'only those that died of this')
    .option('--job <id>', 'only of this job')
    .option('--tenant <tenant>', 'only of this organization and mode')
    .option('--all', 'also letters that were replayed or discarded')
    .action(perform(async (parts, { options }) => {
      const chosen = options.stage === undefined ? READING_STAGES : [stageOf(options.stage)]
      const filter = { ...filterOf(undefined, options), all: options.all === true }
      const data = await list(parts, chosen, filter)
      return { data, text: listText(data) }
    }))
  dead.command('show').description('show a letter; its content stays sealed')
    .argument('<stage>', stages).argument('<letter>', 'partition:offset, as "list" shows it')
    .option('--open', 'show its content in clear; takes KEY_RING and KEY_ACTIVE')
    .action(perform(async (parts, { names: [stage = '', place = ''], options }) => {
      const letter = { stage: stageOf(stage), place: placeIn(place) }
      const data = await show(parts, letter, options.open === true)
      return { data, text: fieldsText(data) }
    }))
}

function addDecisions (dead: Command, perform: Perform): void {
  const stages = READING_STAGES.join(', ')
  const add = (name: string, description: string) => dead.command(name).description(description)
    .argument('<stage>', stages).argument(PLACE, PLACE_TEXT)
    .option('--job <id>', 'all of this job')
    .option('--tenant <tenant>', 'all of this organization and mode')
    .option('--again', 'also letters that were replayed or discarded before')
    .option('--limit <number>', 'at most so many at a time, the oldest first', '50')
    .option('--yes', 'needed to decide about more than a single named letter')
  add('replay', 'send letters back to the topics they came from, as they were')
    .option('--reason <reason>', 'all that died of this')
    .action(perform(async (parts, { names: [stage = '', place], options }) => {
      const data = await replay(parts, choiceOf(stage, place, options))
      return { data, text: decidedText(data) }
    }))
  add('discard', 'note that nothing more is done about letters')
    .requiredOption('--reason <text>', 'why, for those who come later')
    .option('--died-of <reason>', 'all that died of this')
    .action(perform(async (parts, { names: [stage = '', place], options }) => {
      const { reason: why = '', diedOf, ...others } = options
      if (why.trim() === '') throw new UsageError('Say why: --reason "text".')
      const chosen = { ...others, ...diedOf !== undefined && { reason: diedOf } }
      const data = await discard(parts, choiceOf(stage, place, chosen), why.trim())
      return { data, text: decidedText(data) }
    }))
}
