import { count } from './amounts.ts'
import type { Progress } from './feed-send.ts'

/** Of fewer results nobody can tell how long the rest will take. */
const FEW_RESULTS = 100

/** Counts, rates a second, and how long the rest will take at the rate of the results. */
export function progressText ({ sent, results, fileRead }: Progress, seconds: number): string {
  const rate = (number: number) => count(number / Math.max(seconds, 0.001))
  const text = `sent ${count(sent)} (${rate(sent)}/s), ` +
    `results ${count(results)} (${rate(results)}/s)`
  if (results < FEW_RESULTS || fileRead === 0) return text
  const left = (sent / fileRead - results) / (results / Math.max(seconds, 0.001))
  return `${text}, about ${count(Math.max(0, left))} s left`
}
