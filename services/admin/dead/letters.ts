import Type from 'typebox'
import { connectOrganizationKeys } from '../../accounts/connect-organization-keys.ts'
import { createPartners, readPartners } from '../../accounts/partners.ts'
import { keysInTopic } from '../../jobs/job-keys.ts'
import { createJobMessageCodec } from '../../jobs/message-codec.ts'
import { readMessageRows } from '../../jobs/results/block.ts'
import type { Outcome } from '../../jobs/job.ts'
import { createJobStore } from '../../jobs/store.ts'
import type { Connections } from '../../runtime/engine/connections.ts'
import type { DecisionRecord, LetterDecision } from '../../runtime/engine/dead-letters.ts'
import { readRowCount } from '../../runtime/engine/stage.ts'
import type { OutgoingMessage, RawMessage } from '../../runtime/kafka/bus.ts'
import type { TopicReader } from '../../runtime/kafka/topic-reader.ts'
import { indexes } from '../../runtime/platform/bitmap.ts'
import type { Environment } from '../../runtime/platform/command-environment.ts'
import { commonConfig, loadConfig, pick, rootKeys } from '../../runtime/platform/config.ts'
import { sleep } from '../../runtime/platform/retry.ts'
import { UsageError } from '../../runtime/platform/run-command.ts'
import { deadTopic, logicalTopic } from '../../runtime/platform/topics.ts'
import type { StageName } from '../../topology.ts'
import { toRanges } from '../audit/checks.ts'
import { withConnections } from '../deps.ts'
import { formatHeaders, openContent, readEnvelope, safeText } from './content.ts'

/** A message of a dead-letter topic, without its content. */
type Letter = {
  readonly stage: StageName
  /** `partition:offset` in the dead-letter topic. */
  readonly position: string
  readonly reason: string
  /** NaN when unknown. */
  readonly deadAtMs: number
  /** Where the stage read the message. */
  readonly from: {
    readonly topic: string, readonly partition: string, readonly offset: string,
  }
  readonly tenant: string
  readonly job: string
  readonly service: string
  /** Number of rows in the message; 0 when unknown. */
  readonly rows: number
  readonly bytes: number
}

/** A letter with all decisions about it, oldest first. */
export type DecidedLetter = Letter & { readonly decisions: readonly LetterDecision[] }

/** Returns `partition:offset` of a message. */
export function formatPosition ({ partition, offset }: RawMessage): string {
  return `${partition}:${offset}`
}

/**
 * Reads a letter from the headers of a message of `<stage>.dead`. Only the engine writes the
 * headers with the reason and the origin; the others are those of the original message.
 */
function parseLetter (stage: StageName, raw: RawMessage): Letter {
  const { headers } = raw
  return {
    stage,
    position: formatPosition(raw),
    reason: headers['dead_reason'] ?? '',
    deadAtMs: Date.parse(headers['dead_at'] ?? ''),
    from: {
      topic: headers['dead_topic'] ?? '',
      partition: headers['dead_partition'] ?? '',
      offset: headers['dead_offset'] ?? '',
    },
    tenant: headers['tenant'] ?? '',
    job: headers['job'] ?? '',
    service: headers['service'] ?? '',
    rows: readRowCount(headers),
    bytes: raw.value?.length ?? 0,
  }
}

const ACTIONS = ['replayed', 'ignored', 'discarded'] as const

/**
 * Parses a decision from the headers of a message; undefined for letters. The engine marks every
 * letter with `dead_stage`, so a sender cannot forge a decision with headers of its own.
 */
export function parseDecision (headers: RawMessage['headers']): DecisionRecord | undefined {
  const {
    done_of: position, done_as: done, done_at: at = '', done_why: reason = '', done_job: job,
  } = headers
  if (position === undefined || 'dead_stage' in headers) return undefined
  const action = ACTIONS.find(name => name === done)
  if (action === undefined) return undefined
  const decision = { action, atMs: Date.parse(at), reason }
  return { position, decision: job === undefined ? decision : { ...decision, job } }
}

export type Filter = {
  readonly position?: string
  readonly reason?: string
  readonly job?: string
  readonly tenant?: string
}

/** Whether a letter was neither discarded nor taken: a replay without effect leaves it waiting. */
export function isWaiting ({ decisions }: DecidedLetter): boolean {
  return decisions.every(({ action }) => action === 'ignored')
}

/** Whether a letter matches all defined fields of a filter. */
export function matches (
  letter: DecidedLetter, { position, reason, job, tenant }: Filter
): boolean {
  const same = (wanted: string | undefined, actual: string) =>
    wanted === undefined || wanted === actual
  return same(position, letter.position) && same(reason, letter.reason) &&
    same(job, letter.job) && same(tenant, letter.tenant)
}

export type LetterList = {
  /** Number of waiting letters by stage, regardless of the filter. */
  readonly waiting: Readonly<Record<string, number>>
  /** The matching letters; of each stage the oldest first. */
  readonly letters: readonly Summary[]
}

const WARNING = 'This output contains the decrypted content. Do not store it or pass it on.'

/**
 * Reads all letters of a stage with the decisions about them, oldest first. Keeps no content;
 * `onMessage` gets each message.
 */
export async function readLetters (
  { read }: DeadLetterDeps, stage: StageName, onMessage: (raw: RawMessage) => void = () => {}
): Promise<readonly DecidedLetter[]> {
  const letters: Letter[] = []
  const decisions = new Map<string, readonly LetterDecision[]>()
  await read(deadTopic(stage), messages => {
    for (const raw of messages) {
      onMessage(raw)
      const record = parseDecision(raw.headers)
      if (record === undefined) {
        letters.push(parseLetter(stage, raw))
      } else {
        const { position, decision } = record
        decisions.set(position, [...decisions.get(position) ?? [], decision])
      }
    }
  })
  return letters.map(letter => ({ ...letter, decisions: decisions.get(letter.position) ?? [] }))
}

/** Lists the waiting letters of these stages; with `all` also those with a decision. */
export async function list (
  deps: DeadLetterDeps, stages: readonly StageName[],
  filter: Filter & { readonly all?: boolean }
): Promise<LetterList> {
  const lettersByStage = await Promise.all(stages.map(stage => readLetters(deps, stage)))
  const waiting = stages.map((stage, index) =>
    [stage, (lettersByStage[index] ?? []).filter(isWaiting).length] as const)
  const letters = lettersByStage.flat()
    .filter(letter => matches(letter, filter) && (filter.all === true || isWaiting(letter)))
  return {
    waiting: Object.fromEntries(waiting),
    letters: letters.map(letter => summarize(letter, deps.now())),
  }
}

/**
 * Returns everything about a letter except its content. `open` adds the decrypted content.
 * @throws UsageError when the letter does not exist.
 */
export async function show (
  deps: DeadLetterDeps, { stage, position }: { readonly stage: StageName, position: string },
  open: boolean
) {
  let raw: RawMessage | undefined
  const letters = await readLetters(deps, stage, message => {
    if (formatPosition(message) === position) raw = message
  })
  const letter = letters.find(each => each.position === position)
  if (raw === undefined || letter === undefined) throw unknownLetter(stage, position)
  const message = raw
  return await deps.inspect(open, async inspector => ({
    ...open && { warning: WARNING },
    ...summarize(letter, deps.now()),
    rowsOfJob: rowRanges(message.headers),
    ...logicalTopic(letter.from.topic)?.partner === undefined
      ? await inspector.replayEffect(letter.tenant, letter.job)
      : CONTACT_REPLAY_EFFECT,
    history: letter.decisions
      .map(({ action, atMs, reason }) => ({ action, at: formatTime(atMs), reason })),
    headers: formatHeaders(message.headers),
    keyBytes: message.key.length,
    envelope: await inspector.envelope(message),
    ...open && { content: await inspector.content(message) },
  }))
}

/** Returns the error for a position without a letter. */
export function unknownLetter (stage: StageName, position: string): UsageError {
  return new UsageError(`Letter ${position} does not exist in ${deadTopic(stage)}, which retains ` +
    'letters for 30 days. "list --all" shows the existing ones.')
}

/** A contact of a feed belongs to no job yet. */
const CONTACT_REPLAY_EFFECT: ReplayEffect = {
  jobStatus: 'no job',
  replayEffect: 'adds the contact to the feed, unless an earlier replay of it was taken: ' +
    'checked, charged and answered like any other',
}

/** Summarizes a letter for a list. Makes untrusted texts safe for a terminal. */
function summarize (letter: DecidedLetter, nowMs: number) {
  const { stage, position, from, rows, bytes, deadAtMs, decisions } = letter
  const last = decisions.at(-1)
  return {
    stage,
    letter: position,
    reason: safeText(letter.reason),
    deadAt: formatTime(deadAtMs),
    ageSeconds: Number.isNaN(deadAtMs) ? null : Math.max(0, Math.round((nowMs - deadAtMs) / 1_000)),
    tenant: safeText(letter.tenant),
    job: safeText(letter.job),
    service: safeText(letter.service),
    rows,
    bytes,
    from: safeText(`${from.topic} ${from.partition}:${from.offset}`),
    decision: last === undefined
      ? null
      : {
          action: last.action,
          at: formatTime(last.atMs),
          reason: safeText(last.reason),
          count: decisions.length,
        },
  }
}

export type Summary = ReturnType<typeof summarize>

/** Formats the rows of the job in a message, counted from 1, for example `1-200, 205`. */
function rowRanges (headers: Readonly<Record<string, string>>): string {
  const message = readMessageRows(headers)
  if (message === undefined) return 'unknown'
  const { coordinates: { firstRow }, bitmap } = message
  const ranges = toRanges([...indexes(bitmap)].map(index => firstRow + index + 1))
  return ranges.map(([from, to]) => from === to ? `${from}` : `${from}-${to}`).join(', ')
}

/** Formats a time in ISO 8601; null when it is unknown. */
function formatTime (ms: number): string | null {
  return Number.isNaN(ms) ? null : new Date(ms).toISOString()
}

export type DeadLetterDeps = {
  readonly read: TopicReader['read']
  /** Resolves when all messages are acknowledged, in this order; rejects after 30 s. */
  readonly send: (messages: readonly OutgoingMessage[]) => Promise<void>
  /** Runs work with an inspector. `open` lets it decrypt content, which needs the key ring. */
  readonly inspect: <T>(open: boolean, work: (inspector: Inspector) => Promise<T>) => Promise<T>
  /** The state of jobs by id; without those that are gone or whose store is unavailable. */
  readonly readJobs: Inspector['jobs']
  readonly now: () => number
  readonly sleep: (ms: number) => Promise<void>
}

const SEND_TIMEOUT_MS = 30_000

/**
 * Runs work with the dependencies of the dead-letter commands. Lists and decisions need only the
 * brokers and the message keys, so that they work while other stores are down.
 */
export async function withDeadLetters<T> (
  env: Environment, work: (deps: DeadLetterDeps) => Promise<T>
): Promise<T> {
  return await withConnections(env, ['bus', 'read'], async ({ bus, read }) => {
    const inspect: DeadLetterDeps['inspect'] = async (open, inspectWork) => {
      const roots = open ? loadConfig(rootConfig, env) : undefined
      return await withConnections(env, ['codec', 'state'], ({ codec, state }) =>
        inspectWork(createInspector({ bus, codec, state, roots })))
    }
    return await work({
      read,
      send: messages =>
        bus.producer('resend').send(messages, AbortSignal.timeout(SEND_TIMEOUT_MS)),
      inspect,
      readJobs: async jobs => {
        try {
          return await inspect(false, inspector => inspector.jobs(jobs))
        } catch {
          return new Map()
        }
      },
      now: Date.now,
      sleep,
    })
  })
}

/** A job, by the letter of one of its messages. The tenant of a contact follows from its topic. */
type LetterJob = { readonly tenant: string, readonly topic: string, readonly job: string }
export type JobState = {
  readonly status: string, readonly ended: boolean, readonly chargedMicros: number,
}

type Inspector = {
  readonly envelope: (raw: RawMessage) => ReturnType<typeof readEnvelope>
  readonly replayEffect: (tenant: string, job: string) => Promise<ReplayEffect>
  /** The state of these jobs, by id, without those that are gone. */
  readonly jobs: (jobs: readonly LetterJob[]) => Promise<ReadonlyMap<string, JobState>>
  /** The decrypted content, or why it cannot be decrypted; undefined unless `open` is set. */
  readonly content: (raw: RawMessage) => Promise<unknown>
}

const rootConfig = Type.Object(
  pick(commonConfig, [...rootKeys.results, ...rootKeys.partners]))

type InspectorDeps = Pick<Connections, 'bus' | 'codec' | 'state'> & {
  readonly roots: ReturnType<typeof loadConfig<typeof rootConfig.properties>> | undefined
}

function createInspector ({ bus, codec, state, roots }: InspectorDeps): Inspector {
  const store = createJobStore(state)
  const content = async (raw: RawMessage) => {
    if (roots === undefined) return undefined
    const findClosed = keysInTopic({ bus, codec })
    const messageCodec = createJobMessageCodec({ bus, codec, state }, roots, findClosed)
    const partners = createPartners({
      redis: state, keys: connectOrganizationKeys('partners', roots, { state }),
    })
    return await openContent({ codec, messageCodec, partners }, raw)
  }
  const jobs = async (letterJobs: readonly LetterJob[]) => {
    const tenants = new Map((await readPartners(state)).map(({ name, tenant }) => [name, tenant]))
    const states = new Map<string, JobState>()
    for (const { tenant, topic, job } of letterJobs) {
      const partner = logicalTopic(topic)?.partner
      const outcome =
        await store.outcome(partner === undefined ? tenant : tenants.get(partner) ?? '', job)
      if (outcome.kind !== 'accepted') continue
      const { status, ended, chargedMicros } = outcome.job
      states.set(job, { status, ended, chargedMicros })
    }
    return states
  }
  return {
    jobs,
    envelope: raw => readEnvelope(codec, raw),
    replayEffect: async (tenant, job) => describeEffect(await store.outcome(tenant, job)),
    content,
  }
}

/** The status of the job of a letter, and what a replay of the letter can change. */
type ReplayEffect = { readonly jobStatus: string, readonly replayEffect: string }

/**
 * Describes what a replay changes for a job with this outcome. The tally charges the first result
 * of each row and nothing after the end of the job, so a replay can charge open rows only.
 */
function describeEffect (outcome: Outcome): ReplayEffect {
  if (outcome.kind === 'refused') {
    return { jobStatus: 'refused', replayEffect: 'changes nothing: the job was rejected' }
  }
  if (outcome.kind === 'open') {
    return {
      jobStatus: 'unknown',
      replayEffect: 'charges nothing: the job does not exist or ended more than 10 minutes ago',
    }
  }
  const { ended, closed, status: jobStatus } = outcome.job
  if (ended || closed) return { jobStatus, replayEffect: 'charges nothing: the job has ended' }
  return {
    jobStatus,
    replayEffect: 'can complete open rows; all other rows keep their result and price',
  }
}
