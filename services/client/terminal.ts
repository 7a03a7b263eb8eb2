import { createInterface } from 'node:readline/promises'
import { ApiError, ConnectionError, isLostConnection } from './transport.ts'

type Input = NodeJS.ReadableStream & { readonly isTTY?: boolean }
type Output = NodeJS.WritableStream & { readonly isTTY?: boolean }

/** The streams of a command. Tests replace them. */
export type Streams = {
  readonly input: Input
  readonly output: Output
  readonly errors: Output
}

const dollars = new Intl.NumberFormat('en-US', {
  style: 'currency', currency: 'USD', minimumFractionDigits: 2, maximumFractionDigits: 6,
})
const integers = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })

/** Formats micros of USD: `$1.50`. For display only, never for arithmetic. */
export function money (micros: number): string {
  return dollars.format(micros / 1_000_000)
}

/** Formats an integer: `12,345`. */
export function count (number: number): string {
  return integers.format(number)
}

/** Formats a number of things: `1 job`, `2 jobs`. */
export function counted (number: number, thing: string): string {
  return `${count(number)} ${thing}${number === 1 ? '' : 's'}`
}

/** Formats seconds: `7 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration (seconds: number): string {
  const rounded = Math.round(seconds)
  if (rounded < 60) return `${rounded} s`
  const minutes = Math.floor(rounded / 60)
  if (minutes < 60) return `${minutes} min ${rounded % 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** Asks the user a yes-or-no question. Undefined without a terminal. */
export type Confirm = ((question: string) => Promise<boolean>) | undefined

type Terminal = { readonly input: Input, readonly output: Output }

/** Asks at a terminal, where Ctrl-C ends the process. The end of the input is an empty answer. */
export async function ask ({ input, output }: Terminal, question: string): Promise<string> {
  const prompt = createInterface({ input, output })
  // readline handles Ctrl-C itself unless it has a listener.
  prompt.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  const closed = new AbortController()
  prompt.on('close', () => closed.abort())
  const answer = await prompt.question(question, { signal: closed.signal }).catch(() => '')
  prompt.close()
  return answer.trim()
}

/** Returns a prompt on a terminal; undefined unless both streams are terminals. */
export function createConfirm ({ input, output }: Terminal): Confirm {
  if (input.isTTY !== true || output.isTTY !== true) return undefined
  return async question => /^y(es)?$/i.test(await ask({ input, output }, question))
}

type ProgressLine<T> = {
  readonly show: (progress: T) => void
  /** Ends the line, so that the next output starts on a new one. */
  readonly end: () => void
}

type LineOptions<T> = {
  /** Formats the progress, given the seconds since the start. */
  readonly textOf: (progress: T, seconds: number) => string
  readonly now?: () => number
}

const TERMINAL_EVERY_MS = 250
const LINES_EVERY_MS = 1_000

/** Shows progress: in place on a terminal, elsewhere as at most one line a second. */
export function createProgressLine<T> (
  target: { readonly write: (text: string) => unknown, readonly isTTY?: boolean },
  { textOf, now = Date.now }: LineOptions<T>
): ProgressLine<T> {
  const isTerminal = target.isTTY === true
  const everyMs = isTerminal ? TERMINAL_EVERY_MS : LINES_EVERY_MS
  const startedAtMs = now()
  let writtenAtMs = startedAtMs
  let isOpen = false
  return {
    show: progress => {
      if (now() - writtenAtMs < everyMs) return
      writtenAtMs = now()
      isOpen = true
      const text = textOf(progress, (writtenAtMs - startedAtMs) / 1_000)
      target.write(isTerminal ? `\r\u001b[K${text}` : `${text}\n`)
    },
    end: () => {
      if (isOpen && isTerminal) target.write('\n')
      isOpen = false
    },
  }
}

/** Progress of a submitted file: rows that are done, and how many were before this run started. */
export type SubmitProgress = {
  readonly done: number
  readonly rows: number
  readonly before: number
  readonly jobs: number
  readonly endedJobs: number
  /** Rows that wait for their next check, and the estimated time of the last one. */
  readonly waiting?: { readonly rows: number, readonly untilMs: number }
}

const BAR_WIDTH = 24
/** With fewer rows an estimate of the remaining time is meaningless. */
const MIN_ROWS_FOR_ESTIMATE = 100

/** Formats a bar, the rows, the rows a second of this run and the estimated remaining time. */
function submitProgressText (progress: SubmitProgress, seconds: number): string {
  const { done, rows, before, jobs, endedJobs, waiting } = progress
  const share = rows === 0 ? 1 : done / rows
  const bar = '#'.repeat(Math.floor(BAR_WIDTH * share)).padEnd(BAR_WIDTH, '.')
  const doneInRun = Math.max(0, done - before)
  const perSecond = doneInRun / Math.max(seconds, 0.001)
  const remaining = doneInRun < MIN_ROWS_FOR_ESTIMATE || done === rows
    ? ''
    : `, about ${duration((rows - done) / perSecond)} left`
  // The rate says nothing about rows that wait for a time that is known.
  const rest = waiting === undefined
    ? remaining
    : `, ${count(waiting.rows)} wait until about ${minuteText(waiting.untilMs)}`
  const ofJobs = jobs === 1 ? '' : `, ${count(endedJobs)} of ${count(jobs)} jobs`
  return `[${bar}] ${Math.floor(100 * share)} %  ${count(done)} of ${count(rows)} rows${ofJobs}, ` +
    `${count(perSecond)} rows/s${rest}`
}

/** Formats a time, ms since 1970: `2026-08-11 12:05 UTC`. */
export function minuteText (ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

export type Console = {
  /** Writes a message to the user; does nothing when the command is quiet. */
  readonly say: (line: string) => void
  readonly progress: (progress: SubmitProgress) => void
  /** Writes the result of the command. */
  readonly print: (text: string) => void
  readonly confirm: Confirm
  readonly end: () => void
}

/** Writes results to the output stream, and messages and progress to the error stream. */
export function createConsole (
  { input, output, errors }: Streams, { quiet }: { readonly quiet: boolean }
): Console {
  let line: ProgressLine<SubmitProgress> | undefined
  return {
    say: text => {
      if (quiet) return
      line?.end()
      errors.write(`${text}\n`)
    },
    progress: progress => {
      if (quiet) return
      line ??= createProgressLine(errors, { textOf: submitProgressText })
      line.show(progress)
    },
    print: text => { output.write(`${text}\n`) },
    confirm: createConfirm({ input, output: errors }),
    end: () => {
      line?.end()
      line = undefined
    },
  }
}

/** A failure that the user can fix. The message states the problem and what to do. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError'
}

/** Invalid arguments: the command did nothing. */
export class UsageError extends CommandError {
  override readonly name = 'UsageError'
}

/** The user interrupted the command and can resume it later. */
export class InterruptedError extends CommandError {
  override readonly name = 'InterruptedError'
}

/** The message of a failure for the user; undefined for a bug of the program. */
export function failureMessage (error: unknown): string | undefined {
  if (error instanceof CommandError) return error.message
  if (error instanceof ApiError) {
    const { message, param, requestId } = error
    const details = [
      param === undefined ? undefined : `parameter ${param}`,
      requestId === undefined ? undefined : `request ${requestId}`,
    ].filter(detail => detail !== undefined)
    return details.length === 0 ? message : `${message} (${details.join(', ')})`
  }
  if (isLostConnection(error)) {
    const reason = error instanceof ConnectionError || error.name === 'TimeoutError'
      ? error.message
      : 'The connection to the service was lost: it is unreachable.'
    return `${reason} An unfinished submission is resumed by the same command.`
  }
  const { code, path } = error as NodeJS.ErrnoException
  if (code === undefined || path === undefined) return undefined
  return `${path}: ${(error as Error).message}`
}
