import { count, duration } from '../../client/terminal.ts'
import type { Pause } from '../pause/pauses.ts'
import { pauseLine } from '../pause/text.ts'
import type { Paint } from '../screen.ts'
import { tableText, type Cell, type Column } from '../table.ts'
import type { LagLine } from './lines.ts'

/** The table of `lag`, below it its sum and what is paused. */
export function lagText (
  lines: readonly LagLine[], pauses: readonly Pause[], paint: Paint
): string {
  const byPartition = lines.some(({ partition }) => partition !== null)
  const place: readonly Column[] = byPartition
    ? [{ title: 'topic' }, { title: 'partition', right: true }]
    : [{ title: 'partitions', right: true }]
  const columns: readonly Column[] = [
    { title: 'stage' }, { title: 'group' }, ...place, { title: 'lag', right: true },
    { title: 'messages/s', right: true }, { title: 'caught up in', right: true },
    { title: 'oldest', right: true },
  ]
  const rows = lines.map(line => [
    stageCell(line),
    line.group,
    ...byPartition ? [line.topic, String(line.partition)] : [String(line.partitions)],
    ...figuresOf(line),
  ])
  const sum = lines.reduce((total, { lagMessages }) => total + lagMessages, 0)
  const groups = new Set(lines.map(({ group }) => group)).size
  const end = `${count(sum)} messages wait in ${groups} groups.`
  const paused = pauses.map(pause => pauseLine(pause, paint))
  return [tableText(columns, rows, paint), end, ...paused].join('\n')
}

function stageCell ({ stage, paused }: LagLine): Cell {
  return paused === true ? { text: `${stage} (paused)`, style: 'yellow' } : stage
}

function figuresOf (line: LagLine): readonly Cell[] {
  const { lagMessages, messagesPerSecond, catchUpSeconds, oldestSeconds } = line
  const stands = lagMessages > 0 && messagesPerSecond === 0
  const busy = stands ? 'red' : 'yellow'
  return [
    { text: count(lagMessages), style: lagMessages === 0 ? 'dim' : busy },
    messagesPerSecond === null ? '-' : count(messagesPerSecond),
    catchUpSeconds === null ? '-' : duration(catchUpSeconds),
    oldestSeconds === null ? '-' : duration(oldestSeconds),
  ]
}
