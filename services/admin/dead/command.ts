import { decisionMessage, type LetterDecision } from '../../runtime/engine/dead-letters.ts'
import type { OutgoingMessage, RawMessage } from '../../runtime/kafka/bus.ts'
import { REPLAY_OF } from '../../runtime/crypto/mac.ts'
import type { PartitionOffsets } from '../../runtime/kafka/topic-reader.ts'
import { CommandFailure, UsageError } from '../../runtime/platform/run-command.ts'
import { recordsText } from '../../runtime/platform/text-table.ts'
import { deadTopic, logicalTopic } from '../../runtime/platform/topics.ts'
import { READING_STAGES, type StageName, topology } from '../../topology.ts'
import {
  type AdminCommand, type CommandCall, type CommandOutcome, type Context, parseFromZero,
  runAndPrint,
} from '../command-line.ts'
import { safeText } from './content.ts'
import {
  type DeadLetterDeps, type DecidedLetter, type Filter, formatPosition, isWaiting, type JobState,
  list, matches, parseDecision, readLetters, show, type Summary, unknownLetter,
} from './letters.ts'

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
        waitMs: parseFromZero('--wait', options.wait) * 1_000,
        onProgress: createProgressLog(errors),
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

/** The selected letters, and what the operator has confirmed. */
type Selection = {
  readonly stage: StageName
  readonly filter: Filter
  /** Includes letters with an earlier decision. */
  readonly again: boolean
  /** Required unless the filter names a single letter. */
  readonly yes: boolean
  /** Maximum number of letters, the oldest first. */
  readonly limit: number
}

type DecidedLetters = {
  readonly stage: StageName
  readonly action: 'discarded'
  readonly letters: readonly string[]
  /** Number of matching letters beyond the limit. */
  readonly remaining: number
}

/** What became of a letter that was replayed. */
type ReplayedLetter = {
  readonly letter: string
  /**
   * `taken`: the stage has done with it what it does with every message. `answered`: the contact of
   * a feed has a result without a job. `ignored`: it had no effect. `dead`: it is a new letter.
   * `pending`: the stage has not reported yet.
   */
  readonly outcome: 'taken' | 'answered' | 'ignored' | 'dead' | 'pending'
  /** Why it was ignored, the answer, or the reason of the new letter. */
  readonly reason: string
  /** The job of the message, with its status and charge by now; null if there is none. */
  readonly job: string | null
  readonly jobStatus: string | null
  readonly jobChargedMicros: number | null
}

type Replay = {
  readonly stage: StageName
  readonly letters: readonly ReplayedLetter[]
  /** Number of matching letters beyond the limit. */
  readonly remaining: number
}

type ReplayOptions = {
  /** How long to wait for the reports of the stage. */
  readonly waitMs: number
  /** Called when letters are sent, and with each report. */
  readonly onProgress: (progress: { readonly sent: number, readonly reported: number }) => void
}

const POLL_MS = 500
/** How long to wait for the end of the jobs of letters that were taken. */
const JOBS_MS = 5_000

/**
 * Sends letters back to the partitions that they came from, unchanged, and waits until their stage
 * has reported what became of them. Only that report takes a letter off the list, so a crash leaves
 * it there; replayed again, a row counts once, and a contact of a feed is taken once.
 * @throws UsageError when no letter matches, when a letter cannot be sent, or without confirmation.
 */
async function replay (
  deps: DeadLetterDeps, selection: Selection, { waitMs, onProgress }: ReplayOptions
): Promise<Replay> {
  const { stage } = selection
  const { selected, remaining } = await select(deps, selection, 'replayed')
  const foreign = selected.find(({ from }) => !isReadBy(stage, from.topic))
  if (foreign !== undefined) {
    throw new UsageError(`Letter ${foreign.position} came from topic "${foreign.from.topic}", ` +
      `which ${stage} does not read. It can only be discarded.`)
  }
  const pending = new Set(selected.map(({ position }) => position))
  let sent = 0
  const reportsFrom = await deps.read(deadTopic(stage), async messages => {
    const batch = messages.filter(message => pending.delete(formatPosition(message)))
    if (batch.length === 0) return
    const truncated = batch.find(({ headers }) => 'dead_value' in headers)
    if (truncated !== undefined) {
      throw new CommandFailure(`Letter ${formatPosition(truncated)} has no content, because the ` +
        'message was too large for the dead-letter topic. It can only be discarded.')
    }
    await deps.send(batch.flatMap(raw => replayMessage(stage, raw, deps.now()) ?? []))
    sent += batch.length
    onProgress({ sent, reported: 0 })
  })
  const reports = await readReports(deps, stage, {
    letters: new Set(selected.map(({ position }) => position)),
    from: reportsFrom,
    waitMs,
    onReported: reported => onProgress({ sent, reported }),
  })
  const replayed = selected.map(letter => replayedLetter(letter, reports.get(letter.position)))
  return { stage, letters: await addJobs(deps, selected, replayed), remaining }
}

type ReportsWanted = {
  readonly letters: ReadonlySet<string>
  readonly from: PartitionOffsets
  readonly waitMs: number
  readonly onReported: (count: number) => void
}

/** Reads what the stage reports from some positions on, until it has all or the wait is over. */
async function readReports (
  { read, sleep }: DeadLetterDeps, stage: StageName,
  { letters, from, waitMs, onReported }: ReportsWanted
): Promise<ReadonlyMap<string, LetterDecision>> {
  const reports = new Map<string, LetterDecision>()
  let next = from
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    next = await read(deadTopic(stage), messages => {
      for (const { headers } of messages) {
        const record = parseDecision(headers)
        if (record === undefined || !letters.has(record.position)) continue
        const { position, decision } = record
        if (decision.action === 'discarded') continue
        // Another operator may replay it at the same time: it is taken once, and then ignored.
        if (reports.get(position)?.action !== 'replayed') reports.set(position, decision)
      }
    }, { from: next })
    onReported(reports.size)
    if (reports.size === letters.size || waitedMs >= waitMs) return reports
    await sleep(POLL_MS)
  }
}

function replayedLetter (
  { position: letter, job }: DecidedLetter, report: LetterDecision | undefined
): ReplayedLetter {
  const about = {
    letter, job: report?.job ?? (job || null), jobStatus: null, jobChargedMicros: null,
  }
  if (report === undefined) return { ...about, outcome: 'pending', reason: '' }
  const { action, reason } = report
  if (action === 'ignored') return { ...about, outcome: 'ignored', reason }
  const [, word = '', rest = ''] = /^(answered|dead again): (.*)$/.exec(reason) ?? []
  if (word === 'answered') return { ...about, outcome: 'answered', reason: rest }
  if (word === 'dead again') return { ...about, outcome: 'dead', reason: rest }
  return { ...about, outcome: 'taken', reason }
}

/** Adds the jobs of letters that were taken, once they have ended or after JOBS_MS. */
async function addJobs (
  { readJobs, sleep }: DeadLetterDeps, selected: readonly DecidedLetter[],
  replayed: readonly ReplayedLetter[]
): Promise<readonly ReplayedLetter[]> {
  const wanted = replayed.flatMap(({ outcome, job }, index) => {
    const letter = selected[index]
    if (outcome !== 'taken' || job === null || letter === undefined) return []
    return [{ tenant: letter.tenant, topic: letter.from.topic, job }]
  })
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const states: ReadonlyMap<string, JobState> =
      wanted.length === 0 ? new Map() : await readJobs(wanted)
    if ([...states.values()].every(({ ended }) => ended) || waitedMs >= JOBS_MS) {
      return replayed.map(letter => {
        const state = letter.outcome === 'taken' ? states.get(letter.job ?? '') : undefined
        if (state === undefined) return letter
        return { ...letter, jobStatus: state.status, jobChargedMicros: state.chargedMicros }
      })
    }
    await sleep(POLL_MS)
  }
}

/**
 * Records that letters will not be replayed, and why. The letters remain until the retention of the
 * topic deletes them.
 * @throws UsageError like `replay`.
 */
async function discard (
  deps: DeadLetterDeps, selection: Selection, reason: string
): Promise<DecidedLetters> {
  const { stage } = selection
  const { selected, remaining } = await select(deps, selection, 'discarded')
  const decision = { action: 'discarded', atMs: deps.now(), reason } as const
  await deps.send(selected.map(({ position }) => decisionMessage(stage, { position, decision })))
  return {
    stage, action: 'discarded', letters: selected.map(({ position }) => position), remaining,
  }
}

async function select (
  deps: DeadLetterDeps, { stage, filter, again, yes, limit }: Selection,
  action: 'replayed' | 'discarded'
): Promise<{ readonly selected: readonly DecidedLetter[], readonly remaining: number }> {
  const matching = (await readLetters(deps, stage)).filter(letter => matches(letter, filter))
  const { position } = filter
  if (position !== undefined) {
    return { selected: [selectOne(matching, { stage, position, again })], remaining: 0 }
  }
  const allowed = matching.filter(letter => again || isWaiting(letter))
  if (allowed.length === 0) throw new UsageError(`No waiting letter of ${stage} matches.`)
  const selected = allowed.slice(0, limit)
  const remaining = allowed.length - selected.length
  if (!yes) {
    const rest = remaining > 0 ? ` (${remaining} more are beyond --limit)` : ''
    const letters = selected.length === 1 ? '1 letter' : `${selected.length} letters`
    throw new UsageError(`${letters} of ${stage} would be ${action}${rest}. ` +
      'Add --yes to confirm.')
  }
  return { selected, remaining }
}

function selectOne (
  [letter]: readonly DecidedLetter[],
  { stage, position, again }: { stage: StageName, position: string, again: boolean }
): DecidedLetter {
  if (letter === undefined) throw unknownLetter(stage, position)
  const last = letter.decisions.findLast(({ action }) => action !== 'ignored')
  if (last === undefined || again) return letter
  throw new UsageError(`Letter ${position} of ${stage} was already ${last.action} at ` +
    `${new Date(last.atMs).toISOString()}. Add --again to repeat it.`)
}

/** Headers that the engine and earlier replays have added. */
const ADDED_HEADERS = /^(dead|replay)_/

/**
 * Returns the original message of a letter: same key, content, headers, topic and partition. Its
 * header `replay_of` asks the stage to report; a contact of a feed also gets the identity and time
 * of its first message. Undefined when the stage does not read that topic.
 */
function replayMessage (
  stage: StageName, raw: RawMessage, nowMs: number
): OutgoingMessage | undefined {
  const { dead_topic: topic = '', dead_partition: partition, dead_offset: offset = '' } =
    raw.headers
  if (!isReadBy(stage, topic)) return undefined
  const headers = Object.fromEntries(
    Object.entries(raw.headers).filter(([name]) => !ADDED_HEADERS.test(name)))
  const contact = {
    replay_offset: offset,
    replay_dead_at: String(Date.parse(raw.headers['dead_at'] ?? '') || nowMs),
    replay_at: String(nowMs),
  }
  return {
    topic,
    key: raw.key.toString(),
    value: raw.value,
    headers: { ...headers, ...stage === 'feed' && contact, [REPLAY_OF]: formatPosition(raw) },
    ...partition !== undefined && { partition: Number(partition) },
  }
}

/** Whether a stage reads a topic of the brokers. */
function isReadBy (stage: StageName, name: string): boolean {
  const reads: readonly string[] = topology.stages[stage].reads
  const topic = logicalTopic(name)?.topic
  return topic !== undefined && reads.includes(topic)
}
