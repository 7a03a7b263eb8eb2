import type { Static } from 'typebox'
import type { PreflightSchema } from '../../schemas/api/create-job.ts'
import type { QuoteBody } from '../../schemas/api/quote.ts'
import { limitationsText } from '../../schemas/api/services.ts'
import { CommandError, count, counted, money, UsageError } from './terminal.ts'
import type { RunState, RunStore } from './run-state.ts'
import { joinResults } from './join-results.ts'
import { readContacts } from './plan.ts'
import {
  closeRun, openRun, toRequest, type Run, stateFileName, type SubmitDeps, type SubmitSettings,
} from './run.ts'
import { insufficientBalance, resolveUnanswered, runJobs } from './send-jobs.ts'
import { retryWhileUnavailable } from './transport.ts'

export type SubmitSummary = {
  readonly output: string
  readonly rows: number
  readonly byStatus: Readonly<Record<string, number>>
  readonly chargedMicros: number
  readonly releasedMicros: number
  readonly jobs: readonly { readonly id: string, readonly status: string, readonly rows: number }[]
  /** False when a job was cancelled or failed: its unchecked rows are unknown in the output. */
  readonly completed: boolean
}

/**
 * Verifies the contacts of a CSV file and writes a copy of the file with the results appended to
 * its lines. Stores its state next to the output: the same call after a crash resumes the run and
 * pays for nothing twice. Throws UsageError and CommandError with what to do, and ApiError for an
 * unsuccessful response of the service.
 */
export async function submitFile (
  settings: SubmitSettings, deps: SubmitDeps
): Promise<SubmitSummary> {
  const run = await openRun(settings, deps)
  const { store, folder, names } = run
  try {
    deps.onRun?.(store)
    if (!isRenamed(run)) {
      await resolveUnanswered(run)
      await confirmAndRun(run)
      await joinResults(run)
      const rename = () => { folder.rename(names.unfinished, names.output) }
      if (deps.rename === undefined) rename()
      else deps.rename(rename)
    }
    store.remove()
    return summarize(settings.output, store.state())
  } finally {
    closeRun(run)
  }
}

async function confirmAndRun (run: Run): Promise<void> {
  try {
    await confirmPrice(run)
  } catch (error) {
    // Nothing was sent, so there is nothing to resume.
    if (run.store.state().jobs.every(({ sentAtMs }) => sentAtMs === undefined)) run.store.remove()
    throw error
  }
  await runJobs(run)
}

/** The last run may have crashed after it renamed the output and before it removed its state. */
function isRenamed ({ store, folder, names }: Run): boolean {
  const { joined, jobs } = store.state()
  const isJoined = joined.jobs === jobs.length
  return isJoined && folder.has(names.output) && !folder.has(names.unfinished)
}

function summarize (output: string, { jobs, plan, joined }: RunState): SubmitSummary {
  const sum = (name: 'chargedMicros' | 'releasedMicros') =>
    jobs.reduce((total, { end }) => total + (end?.[name] ?? 0), 0)
  return {
    output,
    rows: plan.rows,
    byStatus: joined.byStatus,
    chargedMicros: sum('chargedMicros'),
    releasedMicros: sum('releasedMicros'),
    jobs: jobs.map(({ id = '', end, rows }) => ({ id, status: end?.status ?? '', rows })),
    completed: jobs.every(({ end }) => end?.status === 'completed'),
  }
}

/**
 * Returns the message for an interrupted run: how to resume it, and which jobs continue on the
 * service. Removes the state of a run that has sent nothing.
 */
export function interruptRun (settings: Pick<SubmitSettings, 'output'>, store?: RunStore): string {
  const sent = store?.state().jobs.filter(({ sentAtMs }) => sentAtMs !== undefined) ?? []
  if (sent.length === 0) {
    store?.remove()
    return 'Interrupted. No job was sent, nothing will be charged.'
  }
  const running = sent.filter(({ end }) => end === undefined)
  const ids = running.map(({ id }) => id ?? 'one whose id is not known yet')
  return [
    'Interrupted. Run the same command again to resume; nothing is paid twice.',
    `The state of the run is in ${stateFileName(settings.output)}.`,
    running.length === 0
      ? 'All jobs sent so far have ended.'
      : `These jobs continue and will be charged: ${ids.join(', ')}. ` +
        '"verification-jobs cancel JOB" cancels one.',
  ].join('\n')
}

type Counts = Omit<Readonly<Static<typeof PreflightSchema>>, 'quoteId'>

/**
 * Shows the quote of all unsent jobs and the balance, and asks the user to confirm the maximum
 * price, unless an earlier call confirmed at least as much. Throws CommandError when the user
 * declines or the balance is too small, and UsageError without a terminal to ask on.
 */
async function confirmPrice (run: Run): Promise<void> {
  const { settings, deps: { client, say, confirm }, store } = run
  const unsent = store.state().jobs.flatMap((job, index) =>
    job.sentAtMs === undefined ? [index] : [])
  if (unsent.length === 0) return
  const quotes = await quoteJobs(run, unsent)
  const { availableMicros } = await retryWhileUnavailable(() => client.balance(), run.deps)
  const total = sumPreflights(quotes.map(([, { preflight }]) => preflight))
  for (const line of priceLines(total, { jobs: unsent.length, availableMicros })) say(line)
  if (lacksCountry(settings, total)) say(COUNTRY_HINT)
  const limitations = new Set(quotes.flatMap(([, quote]) => quote.limitations))
  if (limitations.size > 0) say(`Limitations: ${limitationsText([...limitations])}.`)
  if (availableMicros < total.maxQuoteMicros) {
    throw insufficientBalance(total.maxQuoteMicros, availableMicros)
  }
  run.deps.approve?.(total.maxQuoteMicros)
  const isConfirmed = quotes.every(([index, { preflight }]) =>
    preflight.maxQuoteMicros <= (store.state().jobs[index]?.confirmedMicros ?? -1))
  if (!isConfirmed && !settings.yes) {
    if (confirm === undefined) {
      throw new UsageError(`The maximum price ${money(total.maxQuoteMicros)} needs confirmation, ` +
        'but there is no terminal to ask on. Confirm it with --yes.')
    }
    if (!await confirm(`Verify for at most ${money(total.maxQuoteMicros)}? [y/N] `)) {
      throw new CommandError('You declined the price. No further job was sent or charged.')
    }
  }
  for (const [index, { preflight }] of quotes) {
    store.updateJob(index, { confirmedMicros: preflight.maxQuoteMicros })
  }
}

const COUNTRY_HINT = 'Numbers in national form (without + and country code) are invalid unless ' +
  '--country names their country, for example --country DE.'

const lacksCountry = ({ service, country }: SubmitSettings, { invalidRows }: Counts) =>
  invalidRows > 0 && country === undefined && service !== 'email-validation'

async function quoteJobs (
  { settings, deps, store, input }: Run, unsent: readonly number[]
): Promise<readonly (readonly [number, QuoteBody])[]> {
  const { file, plan: { column }, jobs } = store.state()
  const quotes: [number, QuoteBody][] = []
  for (const index of unsent) {
    const range = jobs[index]
    if (range === undefined) continue
    const body = toRequest(settings, await readContacts(input, file, { range, column }))
    quotes.push([index, await retryWhileUnavailable(() => deps.client.quote(body), deps)])
    if (unsent.length > 1) deps.say(`Quoted ${quotes.length} of ${unsent.length} jobs.`)
  }
  return quotes
}

/** Sums the preflights of several jobs. */
export function sumPreflights (preflights: readonly Counts[]): Counts {
  const sum = (name: keyof Counts) =>
    preflights.reduce((total, preflight) => total + preflight[name], 0)
  return {
    totalRows: sum('totalRows'),
    invalidRows: sum('invalidRows'),
    duplicateRows: sum('duplicateRows'),
    cacheHits: sum('cacheHits'),
    freshChecks: sum('freshChecks'),
    maxQuoteMicros: sum('maxQuoteMicros'),
  }
}

type Payment = { readonly jobs: number, readonly availableMicros: number }

/** Formats the quote and the balance, for display before the confirmation. */
export function priceLines (total: Counts, { jobs, availableMicros }: Payment): readonly string[] {
  const line = (label: string, rows: number, remark: string) =>
    `  ${label.padEnd(20)} ${count(rows).padStart(11)}  ${remark}`
  return [
    `${counted(total.totalRows, 'row')} in ${counted(jobs, 'job')}:`,
    line('invalid', total.invalidRows, 'free'),
    line('duplicates', total.duplicateRows, 'free'),
    line('cached', total.cacheHits, 'free while cached'),
    line('to verify', total.freshChecks, 'charged for a verdict'),
    `Maximum price: ${money(total.maxQuoteMicros)}. Balance: ${money(availableMicros)} available.`,
  ]
}
