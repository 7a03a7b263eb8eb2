import type { Decided } from './decide.ts'
import type { Listed } from './look.ts'
import type { Summary } from './shown.ts'

/** A list for people: how many letters wait in each stage, then a line for each letter shown. */
export function listText ({ waiting, letters }: Listed): string {
  const counts = Object.entries(waiting).map(([stage, count]) => `${stage} ${count}`)
  return [`waiting: ${counts.join(', ')}`, ...letters.map(lineOf)].join('\n')
}

/** What was decided, for people. */
export function decidedText ({ stage, as, letters, left }: Decided): string {
  const rest = left === 0 ? '' : `\n${left} more fit; run this again for the next ones.`
  return `${stage}: ${as} ${letters.join(', ') || 'nothing'}${rest}`
}

/** Names and values, one a line; what has parts as indented JSON. */
export function fieldsText (fields: object): string {
  return Object.entries(fields).map(([name, value]) =>
    `${name}: ${typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value)}`)
    .join('\n')
}

function lineOf (letter: Summary): string {
  const { stage, tenant, job, rows, from, done } = letter
  const parts = [
    `${stage} ${letter.letter}`,
    letter.reason || 'no reason named',
    `${ageText(letter.ageSeconds)} old`,
    tenant || 'no tenant named',
    job || 'no job named',
    `${rows} rows`,
    `from ${from}`,
  ]
  const why = done?.why ? `: ${done.why}` : ''
  return [...parts, ...done === null ? [] : [`${done.as} ${done.at}${why}`]].join(' | ')
}

const UNITS = [['d', 86_400], ['h', 3_600], ['min', 60], ['s', 1]] as const

function ageText (seconds: number | null): string {
  if (seconds === null) return 'unknown'
  const [unit, size] = UNITS.find(([, one]) => seconds >= one) ?? ['s', 1]
  return `${Math.floor(seconds / size)} ${unit}`
}
