import type { Progress } from './feed-send.ts'

export type ProgressLine = {
  readonly show: (progress: Progress) => void
  readonly end: () => void
}

type Target = { readonly write: (text: string) => unknown, readonly isTTY?: boolean }

const EVERY_MS = 1_000
/** Of fewer results nobody can tell how long the rest will take. */
const FEW_RESULTS = 100
const number = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })

/**
 * Shows how far it is, at most once a second: in place on a terminal, line by line elsewhere.
 */
export function createProgressLine (target: Target, now: () => number = Date.now): ProgressLine {
  const startedAtMs = now()
  let shownAtMs = startedAtMs
  let shown = false
  return {
    show: progress => {
      if (now() - shownAtMs < EVERY_MS) return
      shownAtMs = now()
      shown = true
      const text = progressText(progress, (shownAtMs - startedAtMs) / 1_000)
      target.write(target.isTTY === true ? `\r\u001b[K${text}` : `${text}\n`)
    },
    end: () => { if (shown && target.isTTY === true) target.write('\n') },
  }
}

/** Counts, rates a second, and how long the rest will take at the rate of the results. */
export function progressText ({ sent, results, fileRead }: Progress, seconds: number): string {
  const rate = (count: number) => number.format(count / Math.max(seconds, 0.001))
  const text = `sent ${number.format(sent)} (${rate(sent)}/s), ` +
    `results ${number.format(results)} (${rate(results)}/s)`
  if (results < FEW_RESULTS || fileRead === 0) return text
  const left = (sent / fileRead - results) / (results / Math.max(seconds, 0.001))
  return `${text}, about ${number.format(Math.max(0, left))} s left`
}
