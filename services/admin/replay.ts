import type { KafkaAdmin } from '../runtime/kafka/client.ts'
import { count, counted } from '../client/terminal.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { type Column, type Paint, tableText } from '../runtime/platform/text-table.ts'
import { listSubscriptions } from '../runtime/platform/topics.ts'
import {
  type AdminCommand, type Context, parseInteger, parseStage, runAndPrint,
} from './command-line.ts'

type Options = {
  readonly stage: string
  readonly group?: string
  readonly topic?: string
  readonly from: string
  readonly partition?: string
  readonly yes?: true
}

const HELP = `
Every effect of a stage is idempotent, so a replay changes no balance, no result and no count. It
completes effects that were lost, for example when a store lost its last seconds. Without --yes the
command only shows what it would do. It never moves a group forward, and never a running group.`

/** Adds `replay`. */
export function addReplay (program: AdminCommand, context: Context): void {
  program.command('replay').description('reset the offsets of a stopped consumer group')
    // Without --yes it only shows the plan.
    .records(({ yes }) => yes === true ? { action: 'stage.replayed' } : null)
    .requiredOption('--stage <stage>', 'the stage')
    .requiredOption('--from <position>', 'offset, time (ISO 8601 with time zone) or "beginning"')
    .option('--group <group>', 'its consumer group, as "lag" shows it')
    .option('--topic <topic>', 'only this topic of the group')
    .option('--partition <number>', 'only this partition; required with an offset')
    .option('--yes', 'reset the offsets, instead of showing the plan')
    .addHelpText('after', HELP)
    .example('--stage settle --group settle.bulk --from 2026-08-11T09:30:00Z')
    .example('--stage verify --topic rows.to-verify.small.whatsapp --from beginning --yes')
    .example('--stage ledger --topic wallet.journal --partition 1 --from 1200 --yes')
    .action(runAndPrint<Options>(context, async ({ env, options }, paint) => {
      const request = parseRequest(options)
      const replay = await context.brokers(env, admin => replayGroup(admin, request))
      return { data: replay, text: replayText(replay, paint) }
    }))
}

type Request = ReturnType<typeof parseRequest>

function parseRequest (options: Options) {
  const { stage, from, partition, yes } = options
  const { group, topics } = selectGroup(options)
  const start = parseStart(from)
  if (start.kind === 'offset' && (partition === undefined || topics.length > 1)) {
    throw new UsageError(`--from ${from} is an offset, which needs one partition of one topic. ` +
      `Set --topic and --partition. The topics of the group are: ${topics.join(', ')}.`)
  }
  const only = partition === undefined ? undefined : parseInteger('--partition', partition)
  return { stage, group, topics, start, partition: only, yes: yes === true }
}

/** Where a group starts to read again. */
type Start =
  | { readonly kind: 'beginning' }
  | { readonly kind: 'offset', readonly offset: number }
  | { readonly kind: 'time', readonly atMs: number }

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d/

/** Parses an offset (digits), a time (ISO 8601 with time zone) or `beginning`. */
function parseStart (text: string): Start {
  if (text === 'beginning') return { kind: 'beginning' }
  if (/^\d{1,15}$/.test(text)) return { kind: 'offset', offset: Number(text) }
  const atMs = ISO_TIME.test(text) && /(Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : NaN
  if (Number.isFinite(atMs)) return { kind: 'time', atMs }
  throw new UsageError(`--from ${text} is not an offset (1200), a time with time zone ` +
    '(2026-08-11T09:30:00Z) or "beginning".')
}

/**
 * Selects the group by its name, by a topic that it reads, or as the only one of its stage.
 * @throws UsageError with the existing groups when no group or more than one matches.
 */
function selectGroup (
  { stage, group, topic }: Options
): { readonly group: string, readonly topics: readonly string[] } {
  const all = listSubscriptions(parseStage(stage))
  if (all.length === 0) {
    throw new UsageError(stage === 'feed'
      ? 'feed cannot be replayed: it stores cursors of its own and puts each contact into one ' +
        'job only.'
      : `${stage} cannot be replayed: it reads no topic. Customers repeat their requests with ` +
        'the same Idempotency-Key.')
  }
  const matching = all.filter(candidate => (group === undefined || candidate.group === group) &&
    (topic === undefined || candidate.topics.includes(topic)))
  const [only, ...more] = matching
  if (only !== undefined && more.length === 0) {
    return { group: only.group, topics: topic === undefined ? only.topics : [topic] }
  }
  const problem = only === undefined
    ? 'No group matches --group and --topic'
    : `${matching.length} groups match`
  const lines = all.map(({ group, topics }) => `  ${group}: ${topics.join(', ')}`)
  throw new UsageError(`${problem}. Select one of the groups of ${stage} with --group or ` +
    `--topic:\n${lines.join('\n')}`)
}

type Replay = {
  readonly stage: string
  readonly group: string
  /** Running processes of the group. */
  readonly members: number
  readonly moves: readonly Move[]
  /** False when the command only showed the plan. */
  readonly done: boolean
}

async function replayGroup (admin: KafkaAdmin, request: Request): Promise<Replay> {
  const { stage, group, start, partition, yes } = request
  const positions = await readPositions(admin, request)
  if (positions.length === 0) {
    throw new UsageError(`The topics of ${group} have no partition ${partition}.`)
  }
  const moves = planMoves(positions, start)
  const { groups } = await admin.describeGroups([group])
  const members = groups.reduce((sum, { members }) => sum + members.length, 0)
  const plan = { stage, group, members, moves }
  if (!yes) return { ...plan, done: false }
  if (members > 0) throw new UsageError(howToStop(plan))
  for (const [topic, movesOfTopic] of Map.groupBy(moves, move => move.topic)) {
    const partitions = movesOfTopic.map(({ partition, to }) => ({ partition, offset: String(to) }))
    await admin.setOffsets({ groupId: group, topic, partitions })
  }
  return { ...plan, done: true }
}

/** The offsets of a partition. */
type Position = {
  readonly topic: string
  readonly partition: number
  readonly low: number
  /** The next offset of the group; `low` when it has never committed. */
  readonly next: number
  /** The first offset at or after the requested time. */
  readonly atTime?: number
}

/** Reads the offsets of a group for all its partitions, or for one partition of each topic. */
async function readPositions (
  admin: KafkaAdmin, { group, topics, start, partition: only }: Request
): Promise<readonly Position[]> {
  const committed = await admin.fetchOffsets({ groupId: group, topics: [...topics] })
  const positions = await Promise.all(committed.map(async ({ topic, partitions }) => {
    const bounds = await admin.fetchTopicOffsets(topic)
    const times = start.kind === 'time'
      ? await admin.fetchTopicOffsetsByTimestamp(topic, start.atMs)
      : []
    return bounds.map(({ partition, low }) => {
      const committedOffset = partitions.find(each => each.partition === partition)?.offset
      const time = times.find(each => each.partition === partition)
      const next = Math.max(Number(committedOffset ?? -1), Number(low))
      const atTime = time && Number(time.offset)
      return { topic, partition, low: Number(low), next, atTime }
    })
  }))
  return positions.flat().filter(({ partition }) => only === undefined || partition === only)
}

type Move = {
  readonly topic: string
  readonly partition: number
  readonly next: number
  readonly to: number
  /** Messages that are read again. */
  readonly messages: number
}

/**
 * Plans the offset of each partition that moves back. No partition moves forward, because that
 * would skip rows.
 * @throws UsageError when an offset no longer exists or would skip messages.
 */
function planMoves (positions: readonly Position[], start: Start): readonly Move[] {
  return positions.flatMap(({ topic, partition, low, next, atTime = next }) => {
    const name = `partition ${partition} of ${topic}`
    if (start.kind === 'offset' && start.offset < low) {
      throw new UsageError(`Offset ${start.offset} of ${name} is no longer retained. The oldest ` +
        `offset is ${low}.`)
    }
    if (start.kind === 'offset' && start.offset > next) {
      throw new UsageError(`The next offset of the group in ${name} is ${next}. Moving to ` +
        `${start.offset} would skip ${start.offset - next} messages. A replay only moves back.`)
    }
    const to = start.kind === 'beginning'
      ? low
      : start.kind === 'offset' ? start.offset : Math.max(low, atTime)
    return to >= next ? [] : [{ topic, partition, next, to, messages: next - to }]
  })
}

const COLUMNS: readonly Column[] = [
  { title: 'topic' }, { title: 'partition', right: true }, { title: 'next offset', right: true },
  { title: 'new offset', right: true }, { title: 'messages', right: true },
]

/** Formats a replay or its plan. */
function replayText (replay: Replay, paint: Paint): string {
  const { group, members, moves, done } = replay
  if (moves.length === 0) {
    return `${group} has processed no message from there on: nothing to replay.`
  }
  const rows = moves.map(({ topic, partition, next, to, messages }) =>
    [topic, String(partition), count(next), count(to), count(messages)])
  const sum = moves.reduce((total, { messages }) => total + messages, 0)
  const result = done
    ? `${group} will read ${counted(sum, 'message')} again when it starts.`
    : `Nothing was changed: ${counted(sum, 'message')} would be read again. ` +
      `${members > 0 ? howToStop(replay) : 'Add --yes to replay them.'}`
  return `${tableText(COLUMNS, rows, paint)}\n${result}`
}

/** Explains why a running group cannot be replayed, and how to stop it. */
function howToStop ({ stage, group, members }: Omit<Replay, 'moves' | 'done'>): string {
  return `${group} has ${counted(members, 'member')}: stop every ${stage} first (local stack: ` +
    `"npm run down", then "npm run up -- --scale ${stage}=0"; compose: docker compose stop ` +
    `${stage}; Kubernetes: scale its deployment to 0), wait for 10 s and run this again with --yes.`
}
