import type { Metrics } from '../../../services/runtime/platform/metrics.ts'

const CALLS = /^root_key_calls_total\{(.+)\} ([1-9]\d*)$/gm
const DURATIONS = /^root_key_call_seconds_count\{(.+)\} ([1-9]\d*)$/gm

/**
 * The calls that were counted, such as `{ 'results vault decrypt failed': 1 }`, and those whose
 * duration was observed, such as `{ 'vault decrypt': 1 }`.
 */
export async function rootKeyCalls (metrics: Metrics) {
  const text = await metrics.text()
  const found = (pattern: RegExp) => Object.fromEntries([...text.matchAll(pattern)]
    .map(([, labels = '', value]) =>
      [[...labels.matchAll(/"(.*?)"/g)].map(([, label]) => label).join(' '), Number(value)]))
  return { counted: found(CALLS), timed: found(DURATIONS) }
}
