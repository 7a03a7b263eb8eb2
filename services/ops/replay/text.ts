import { count, counted } from '../../client/terminal.ts'
import type { Paint } from '../screen.ts'
import { tableText, type Column } from '../table.ts'
import type { Move } from './moves.ts'

export type Replay = {
  readonly stage: string
  readonly group: string
  /** Processes that are in the group now. */
  readonly members: number
  readonly moves: readonly Move[]
  /** False when it was only shown. */
  readonly done: boolean
}

const COLUMNS: readonly Column[] = [
  { title: 'topic' }, { title: 'partition', right: true }, { title: 'is at', right: true },
  { title: 'goes back to', right: true }, { title: 'messages', right: true },
]

/** What is done, or would be. */
export function replayText (replay: Replay, paint: Paint): string {
  const { group, members, moves, done } = replay
  if (moves.length === 0) return `Nothing of ${group} lies there that it has done: nothing to do.`
  const rows = moves.map(({ topic, partition, next, to, messages }) =>
    [topic, String(partition), count(next), count(to), count(messages)])
  const sum = moves.reduce((total, { messages }) => total + messages, 0)
  const end = done
    ? `${group} reads ${counted(sum, 'message')} once more when it starts.`
    : `Nothing was changed: ${counted(sum, 'message')} would be read once more. ` +
      `${members > 0 ? howToStop(replay) : 'Do it with --yes.'}`
  return `${tableText(COLUMNS, rows, paint)}\n${end}`
}

/** Why a group is left alone, and what to do first. */
export function howToStop ({ stage, group, members }: Omit<Replay, 'moves' | 'done'>): string {
  return `${group} has ${counted(members, 'member')}: stop every ${stage} first (local stack: ` +
    `"npm run down", then "npm run up -- --scale ${stage}=0"; compose: docker compose stop ` +
    `${stage}; Kubernetes: scale its deployment to 0), wait for 10 s and run this again with --yes.`
}
