import { count, counted, duration } from '../../client/terminal.ts'
import type { Paint } from '../screen.ts'
import { tableText, type Cell, type Column } from '../table.ts'
import type { OpenJobLine, OpenJobs } from './open-jobs.ts'

const COLUMNS: readonly Column[] = [
  { title: 'job' }, { title: 'tenant' }, { title: 'service' }, { title: 'status' },
  { title: 'rows', right: true }, { title: 'age', right: true },
  { title: 'not moved for', right: true },
]

/** From here on a job that does not move is shown in red; most wait for no more than seconds. */
const LONG_SECONDS = 300

/** The table of open jobs, and how many there are. */
export function jobsText ({ jobs, open }: OpenJobs, paint: Paint): string {
  if (open === 0) return 'No job is open that fits this.'
  const more = open - jobs.length
  const rest = more === 0 ? '' : ` ${count(more)} more than --limit shows.`
  return `${tableText(COLUMNS, jobs.map(cellsOf), paint)}\n${counted(open, 'job')} open.${rest}`
}

function cellsOf (line: OpenJobLine): readonly Cell[] {
  const { id, tenant, service, status, rowsDone, rows, ageSeconds, idleSeconds } = line
  const idle = duration(idleSeconds)
  return [
    id, tenant, service ?? '-', status ?? '-',
    rows === null ? '-' : `${count(rowsDone ?? 0)}/${count(rows)}`,
    ageSeconds === null ? '-' : duration(ageSeconds),
    idleSeconds < LONG_SECONDS ? idle : { text: idle, style: 'red' },
  ]
}
