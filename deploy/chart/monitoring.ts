import { readdirSync, readFileSync } from 'node:fs'

/** With a placeholder that the chart replaces by its namespace. */
const SCOPE = 'namespace="<namespace>"'
const TEXT = String.raw`"(?:[^"\\]|\\.)*"`
const RANGE = String.raw`\[[^\]]*\]`
const LABELS =
  String.raw`(?:\w+\s+)?\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`
const NUMBER = String.raw`\d[\w.]*`
const NAME = String.raw`([a-zA-Z_:][\w:]*)(\s*\(|\{(?:[^}"]|${TEXT})*\})?`
const TOKENS = new RegExp([TEXT, RANGE, LABELS, NUMBER, NAME].join('|'), 'g')
const WORDS = ['and', 'or', 'unless', 'bool', 'offset']
/** `expr: ...` of a rule: the rest of the line, or the indented lines after it. */
const EXPRESSION = /^( *)expr: (?:[|>]-?\n(?:\1 +.*(?:\n|$))+|.*)/gm

/**
 * Restricts a query to the namespace of the chart: the Prometheus of a cluster has the processes,
 * memory and HTTP requests of all namespaces.
 */
function scoped (query: string): string {
  return query.replace(TOKENS, (token, name?: string, rest = '') => {
    if (name === undefined || WORDS.includes(name) || rest.endsWith('(')) return token
    const labels = rest.slice(1, -1)
    return `${name}{${labels === '' ? SCOPE : `${SCOPE},${labels}`}}`
  })
}

/**
 * The rules and dashboards of the chart by path: those of compose, with queries that are restricted
 * to the namespace.
 */
export function monitoringFiles (): ReadonlyMap<string, string> {
  const rules = ['recording.yml', 'alerts.yml'].map(name =>
    [`rules/${name}`, rulesOf(textOf(`prometheus/${name}`))] as const)
  const boards = readdirSync(new URL('../grafana/dashboards', import.meta.url)).toSorted()
    .map(name => [`dashboards/${name}`, boardOf(textOf(`grafana/dashboards/${name}`))] as const)
  return new Map([...rules, ...boards])
}

const textOf = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

function rulesOf (text: string): string {
  return text.replace(EXPRESSION, expression => {
    const [key = '', ...query] = expression.split(/(?<=^ *expr:)/)
    return key + scoped(query.join(''))
  })
}

function boardOf (text: string): string {
  const board: unknown = JSON.parse(text, (key, value: unknown) => {
    if (typeof value !== 'string') return value
    if (key === 'expr') return scoped(value)
    return value.replace(/^label_values\(([^,]+),/, (_, series: string) =>
      `label_values(${scoped(series)},`)
  })
  return `${JSON.stringify(board)}\n`
}
