import { readFileSync } from 'node:fs'

const at = (path: string) => readFileSync(`${import.meta.dirname}/../../../${path}`, 'utf8')

/** An alert as it is written. */
export type WrittenAlert = { readonly name: string, readonly text: string }

/** The alerts of the rules that are deployed. */
export function writtenAlerts (): readonly WrittenAlert[] {
  return at('deploy/prometheus/alerts.yml').split('      - alert: ').slice(1)
    .map(text => ({ name: text.split('\n', 1)[0] ?? '', text }))
}

/** The headings of the runbook's steps, with the text below each. */
export function runbookSteps (): ReadonlyMap<string, string> {
  return new Map(at('deploy/docs/runbook.md').split('\n### ').slice(1).map(part => {
    const [heading = '', ...lines] = part.split('\n')
    return [heading, lines.join('\n').split('\n## ')[0] ?? '']
  }))
}

/** The names in the unit tests of the rules, each with how often it is tried. */
export function triedAlerts (): ReadonlyMap<string, number> {
  const names = [...at('test/monitoring/alerts.test.yml').matchAll(/ {2}- name: (\w+) /g)]
  const tries = new Map<string, number>()
  for (const [, name = ''] of names) tries.set(name, (tries.get(name) ?? 0) + 1)
  return tries
}
