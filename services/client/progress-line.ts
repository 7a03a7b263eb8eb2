export type ProgressLine<T> = {
  readonly show: (progress: T) => void
  /** Leaves the line as it is, so that what is written next stands below it. */
  readonly end: () => void
}

export type Target = { readonly write: (text: string) => unknown, readonly isTTY?: boolean }

type LineOptions<T> = {
  /** What to show, given the seconds since the beginning. */
  readonly textOf: (progress: T, seconds: number) => string
  readonly now?: () => number
}

const TERMINAL_EVERY_MS = 250
const LINES_EVERY_MS = 1_000

/** Shows how far it is: in place on a terminal, elsewhere a line at most once a second. */
export function createProgressLine<T> (
  target: Target, { textOf, now = Date.now }: LineOptions<T>
): ProgressLine<T> {
  const isTerminal = target.isTTY === true
  const everyMs = isTerminal ? TERMINAL_EVERY_MS : LINES_EVERY_MS
  const startedAtMs = now()
  let shownAtMs = startedAtMs
  let shown = false
  return {
    show: progress => {
      if (now() - shownAtMs < everyMs) return
      shownAtMs = now()
      shown = true
      const text = textOf(progress, (shownAtMs - startedAtMs) / 1_000)
      target.write(isTerminal ? `\r\u001b[K${text}` : `${text}\n`)
    },
    end: () => {
      if (shown && isTerminal) target.write('\n')
      shown = false
    },
  }
}
