import { UsageError } from '../../runtime/platform/run-command.ts'
import { recordsText } from '../../runtime/platform/text-table.ts'
import { READING_STAGES, type StageName } from '../../topology.ts'
import {
  type AdminCommand, type CommandCall, type CommandOutcome, type Context, runAndPrint,
} from '../command-line.ts'
import { safeText } from './content.ts'
import {
  discard, replay, type ReplayedLetter, type ReplayOptions, type Selection,
} from './decide.ts'
import { type DeadLetterDeps, list, show, type Summary } from './letters.ts'

/** Unparsed options of the command line. */
type Options = {
  readonly stage?: string
  readonly reason?: string
  readonly diedOf?: string
  readonly job?: string
  readonly tenant?: string
  readonly limit?: string
  readonly all?: true
  readonly again?: true
  readonly yes?: true
  readonly open?: true
  readonly wait?: string
}

type Task = (deps: DeadLetterDeps, call: CommandCall<Options>) => Promise<CommandOutcome>
type Run = (task: Task) => ReturnType<typeof runAndPrint>

/** Adds `dead` and its commands. */
export function addDead (program: AdminCommand, context: Context): void {
  const dead = program.command('dead')
    .description('messages that a stage could not process, kept in <stage>.dead for 30 days')
  const run: Run = task => runAndPrint<Options>(context, call =>
    context.letters(call.env, deps => task(deps, call)))
  addQueries(dead, run)
  addDecisions(dead, run, context)
}

const STAGE_NAMES = READING_STAGES.join(', ')

function addQueries (dead: AdminCommand, run: Run): void {
  dead.command('list').description('list waiting letters, and count them by stage')
    .reads()
    .option('--stage <stage>', `only letters of this stage: ${STAGE_NAMES}`)
    .option('--reason <reason>', 'only letters with this reason')
    .option('--job <id>', 'only letters of this job')
    .option('--tenant <tenant>', 'only letters of this organization and mode')
    .option('--all', 'also letters that were replayed or discarded')
    .example('--stage verify')
    .action(run(async (deps, { options }) => {
      const { stage } = options
      const stages = stage === undefined ? READING_STAGES : [parseReadingStage(stage)]
      const { reason, job, tenant, all = false } = options
      const data = await list(deps, stages, { reason, job, tenant, all })
      const counts = Object.entries(data.waiting).map(([stage, count]) => `${stage} ${count}`)
      const table = data.letters.length === 0 ? [] : [recordsText(data.letters.map(letterRow))]
      return { data, text: [`waiting: ${counts.join(', ')}`, ...table].join('\n') }
    }))
  dead.command('show').description('show a letter without its encrypted content')
    .records(({ open }) => open === true ? { action: 'letters.opened' } : null)
    .argument('<stage>', STAGE_NAMES).argument('<letter>', 'partition:offset, as "list" shows it')
    .option('--open', 'also decrypt the content; needs the root keys of results and partners')
    .example('verify 0:12')
    .action(run(async (deps, { words: [stage = '', position = ''], options }) => {
      const letter = { stage: parseReadingStage(stage), position: parsePosition(position) }
      const data = await show(deps, letter, options.open === true)
      // One field per line; objects as indented JSON.
      const lines = Object.entries(data).map(([name, value]) =>
        `${name}: ${typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value)}`)
      return { data, text: lines.join('\n') }
    }))
}

function addDecisions (dead: AdminCommand, run: Run, { errors }: Context): void {
  const add = (name: string, description: string) => dead.command(name).description(description)
    .argument('<stage>', STAGE_NAMES)
    .argument('[letter]', 'partition:offset, as "list" shows it; or select letters with options')
    .option('--job <id>', 'all letters of this job')
    .option('--tenant <tenant>', 'all letters of this organization and mode')
    .option('--again', 'also letters that were replayed or discarded before')
    .option('--limit <number>', 'maximum number of letters, the oldest first', '50')
    .option('--yes', 'confirm a decision about more than a single named letter')
  add('replay', 'send letters unchanged back to the partitions they came from, and report what ' +
    'became of each; the exit code is 1 unless all of them were taken or answered')
    .option('--reason <reason>', 'all letters with this reason')
    .option('--wait <seconds>', 'how long to wait for the stage', '60')
    .records('letters.replayed')
    .example('verify 0:12')
    .action(run(async (deps, { words: [stage = '', position], options }) => {
      const selection = parseSelection(stage, position, options)
      const data = await replay(deps, selection, {
        waitMs: parseWait(options.wait), onProgress: createProgressLog(errors),
      })
      const lines = data.letters.map(sent => `${data.stage} ${sent.letter}: ${outcomeText(sent)}`)
      return {
        data,
        text: [...lines, ...remainingText(data.remaining)].join('\n'),
        isUndone: !data.letters.every(({ outcome }) =>
          outcome === 'taken' || outcome === 'answered'),
      }
    }))
  add('discard', 'record that letters will not be replayed')
    .requiredOption('--reason <text>', 'the reason, for other operators')
    .option('--died-of <reason>', 'all letters with this reason')
    .records('letters.discarded')
    .example('verify 0:12 --reason "a test"')
    .action(run(async (deps, { words: [stage = '', position], options }) => {
      const { reason = '', diedOf } = options
      if (reason.trim() === '') throw new UsageError('--reason is empty. Use --reason "text".')
      const selection = parseSelection(stage, position, { ...options, reason: diedOf })
      const data = await discard(deps, selection, reason.trim())
      const decided = `${data.stage}: ${data.action} ${data.letters.join(', ') || 'nothing'}`
      return { data, text: [decided, ...remainingText(data.remaining)].join('\n') }
    }))
}

/** Parses the name of a stage that has dead letters. Throws UsageError for any other text. */
function parseReadingStage (name: string): StageName {
  const stage = READING_STAGES.find(stage => stage === name)
  if (stage !== undefined) return stage
  throw new UsageError(`Stage ${name} has no dead letters. The stages with dead letters are: ` +
    `${STAGE_NAMES}.`)
}

/** Parses `partition:offset`. Throws UsageError for any other text. */
function parsePosition (text: string): string {
  if (/^\d+:\d+$/.test(text)) return text
  throw new UsageError(`${text} is not the position of a letter (partition:offset, for example ` +
    '0:12). "list" shows the positions.')
}

/** Builds the selection of a command line. Throws UsageError when it is ambiguous. */
function parseSelection (
  stage: string, position: string | undefined, options: Options
): Selection {
  const { reason, job, tenant, again = false, yes = false, limit: text = '' } = options
  const hasFilter = [reason, job, tenant].some(value => value !== undefined)
  if (position !== undefined && hasFilter) {
    throw new UsageError(`Use either the position ${position} or filter options, not both.`)
  }
  if (position === undefined && !hasFilter && !yes) {
    throw new UsageError('No letter is selected. Name a position, for example 0:12, or use ' +
      'filter options. --yes without either selects all waiting letters.')
  }
  const limit = Number(text)
  if (!Number.isSafeInteger(limit) || limit <= 0) {
    throw new UsageError(`--limit ${text} is not an integer from 1.`)
  }
  return {
    stage: parseReadingStage(stage),
    filter: { position: position && parsePosition(position), reason, job, tenant },
    again,
    yes,
    limit,
  }
}

function parseWait (text = ''): number {
  const seconds = Number(text)
  if (text.trim() !== '' && Number.isFinite(seconds) && seconds >= 0) return seconds * 1_000
  throw new UsageError(`--wait ${text} is not a number of seconds from 0.`)
}

/** Logs each change of the progress, for people: results go to stdout alone. */
function createProgressLog (errors: Context['errors']): ReplayOptions['onProgress'] {
  let last = ''
  return ({ sent, reported }) => {
    const line = `${sent} sent, ${reported} reported`
    if (line !== last && errors.isTTY) errors.write(`${line}\n`)
    last = line
  }
}

function outcomeText (letter: ReplayedLetter): string {
  const { outcome, reason, job, jobStatus, jobChargedMicros } = letter
  switch (outcome) {
    case 'taken': {
      const state = jobStatus === null ? '' : `, ${jobStatus}, charged ${jobChargedMicros} micros`
      return job === null ? reason : `taken, job ${safeText(job)}${state}`
    }
    case 'answered': return `answered, ${safeText(reason)}`
    case 'ignored': return `ignored, ${safeText(reason)}; the letter still waits`
    case 'dead': return `dead again, ${safeText(reason)}; it is a new letter`
    case 'pending': return 'not taken yet; the letter waits until its stage reports. Check that ' +
      'the stage runs, and see "list".'
  }
}

function letterRow (letter: Summary) {
  const { stage, tenant, job, rows, from, decision } = letter
  const reason = decision?.reason ? `: ${decision.reason}` : ''
  return {
    stage,
    letter: letter.letter,
    reason: letter.reason || 'unknown',
    age: ageText(letter.ageSeconds),
    tenant: tenant || 'unknown',
    job: job || 'unknown',
    rows,
    from,
    decision: decision === null ? '' : `${decision.action} ${decision.at}${reason}`,
  }
}

const UNITS = [['d', 86_400], ['h', 3_600], ['min', 60], ['s', 1]] as const

function ageText (seconds: number | null): string {
  if (seconds === null) return 'unknown'
  const [unit, size] = UNITS.find(([, length]) => seconds >= length) ?? ['s', 1]
  return `${Math.floor(seconds / size)} ${unit}`
}

const remainingText = (remaining: number) => remaining === 0
  ? []
  : [`${remaining} more letters match. Run the command again for the next ones.`]
