import type { Admin } from 'kafkajs'
import type { Command } from 'commander'
import { withBrokers } from '../brokers.ts'
import { wholeOf } from '../numbers.ts'
import { callOf, paintFor, type Screen } from '../screen.ts'
import { UsageError } from '../../lib/run-command.ts'
import { membersOf, moveGroup, standingsOf } from './brokers.ts'
import { fromOf } from './from.ts'
import { groupOf } from './group.ts'
import { movesOf } from './moves.ts'
import { howToStop, replayText, type Replay } from './text.ts'

type Options = {
  readonly stage: string
  readonly group?: string
  readonly topic?: string
  readonly from: string
  readonly partition?: string
  readonly yes?: true
}

const HELP = `
Every effect of a stage is done once however often a message comes, so a replay changes no balance,
no result and no count: it does what was left out, for example after a store lost its last seconds.
Without --yes it only shows what it would do. It never goes forward, and never on a running group.

Examples:
  npm run ops -- replay --stage settle --group settle.bulk --from 2026-08-11T09:30:00Z
  npm run ops -- replay --stage verify --topic rows.missed.small.whatsapp --from beginning --yes
  npm run ops -- replay --stage ledger --partition 1 --from 1200 --yes`

/** Adds `replay`. */
export function addReplay (program: Command, screen: Screen): void {
  program.command('replay').description('have a stopped consumer group read messages once more')
    .requiredOption('--stage <stage>', 'the stage')
    .requiredOption('--from <where>', 'offset, time (ISO 8601 with its zone) or "beginning"')
    .option('--group <group>', 'its consumer group, as "lag" shows it')
    .option('--topic <topic>', 'only this topic of the group')
    .option('--partition <number>', 'only this partition; an offset needs it')
    .option('--yes', 'do it, instead of showing what would be done')
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const { env, json, options } = callOf<Options>(command)
      const request = requestOf(options)
      const replay = await withBrokers(env, admin => replayGroup(admin, request))
      const text = json ? JSON.stringify(replay) : replayText(replay, paintFor(screen.terminal))
      screen.print(text)
    })
}

type Request = ReturnType<typeof requestOf>

function requestOf ({ stage, group, topic, from, partition, yes }: Options) {
  const meant = groupOf({ stage, group, topic })
  const where = fromOf(from)
  if (where.kind === 'offset' && (partition === undefined || meant.topics.length > 1)) {
    throw new UsageError('An offset is of one partition of one topic: name them by --topic and ' +
      `--partition. The group reads ${meant.topics.join(', ')}.`)
  }
  const only = partition === undefined ? undefined : wholeOf('--partition', partition)
  return { stage, meant, from: where, partition: only, yes: yes === true }
}

async function replayGroup (
  admin: Admin, { stage, meant, from, partition, yes }: Request
): Promise<Replay> {
  const { group } = meant
  const standings = await standingsOf(admin, meant, { from, partition })
  if (standings.length === 0) {
    throw new UsageError(`There is no partition ${partition} in the topics of ${group}.`)
  }
  const moves = movesOf(standings, from)
  const members = await membersOf(admin, group)
  const plan = { stage, group, members, moves }
  if (!yes) return { ...plan, done: false }
  if (members > 0) throw new UsageError(howToStop(plan))
  await moveGroup(admin, group, moves)
  return { ...plan, done: true }
}
