import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

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

/** How an alert is tried: with series (promtool's notation), and when they are looked at. */
type Trial = {
  readonly fires: Readonly<Record<string, string>>
  /** The labels that it fires with, once for each time. */
  readonly as: string | readonly string[]
  readonly quiet: Readonly<Record<string, string>>
  readonly interval?: string
  readonly at?: string
  readonly quietAt?: string | readonly string[]
}

/** The tests of the rules as promtool takes them: of each alert, that it fires, and that not. */
export function ruleTests () {
  const text = at('test/monitoring/alerts.yml')
  // As texts: `0x60` is no number here.
  const trials = parse(text, { schema: 'failsafe' }) as Readonly<Record<string, Trial>>
  return Object.entries(trials).flatMap(([alert, trial]) => {
    const { interval = '15s', at = '10m', quietAt = at } = trial
    const testOf = (
      name: string, series: Trial['fires'], times: readonly string[], as: readonly string[]
    ) => {
      const labels = as[0]?.match(/\w+(?==)/g) ?? ['severity']
      return {
        name: `${alert} ${name}`,
        interval,
        input_series: Object.entries(series).map(([one, values]) => ({ series: one, values })),
        promql_expr_test: times.map(time => ({
          expr: `count by (${['alertname', ...labels].join(', ')}) ` +
            `(ALERTS{alertname="${alert}", alertstate="firing"})`,
          eval_time: time,
          exp_samples: [...new Set(as)].map(one => ({
            labels: `{alertname="${alert}", ${one}}`,
            value: as.filter(other => other === one).length,
          })),
        })),
      }
    }
    return [
      testOf('fires', trial.fires, [at], [trial.as].flat()),
      testOf('stays quiet', trial.quiet, [quietAt].flat(), []),
    ]
  })
}
