import type { PreflightSchema } from '../../schemas/api/create-job.ts'
import type { Static } from 'typebox'
import { counted, money, count } from './amounts.ts'
import { CommandError, UsageError } from './command-error.ts'
import { patiently } from './patience.ts'
import { contactsOf } from './plan.ts'
import { requestOf, type Run } from './submit-settings.ts'

type Preflight = Readonly<Static<typeof PreflightSchema>>
type Counts = Omit<Preflight, 'quoteId'>

/**
 * Shows the preflight and the maximum price of all jobs that were not sent yet, and the balance,
 * and has the price agreed to; one that was agreed to before is not asked for again. Throws
 * CommandError when it is declined or the balance is too small, and UsageError when nobody can be
 * asked.
 */
export async function agreeOnPrice (run: Run): Promise<void> {
  const { settings, parts: { client, say, ask }, store } = run
  const unsent = store.state().parts.flatMap((part, index) =>
    part.sentAtMs === undefined ? [index] : [])
  if (unsent.length === 0) return
  const quotes = await quotesOf(run, unsent)
  const { availableMicros } = await patiently(() => client.balance(), run.parts)
  const total = sumOf(quotes.map(([, preflight]) => preflight))
  for (const line of priceLines(total, { jobs: unsent.length, availableMicros })) say(line)
  if (lacksCountry(settings, total)) say(COUNTRY_HINT)
  if (availableMicros < total.maxQuoteMicros) throw shortOf(total.maxQuoteMicros, availableMicros)
  const isAgreed = quotes.every(([index, { maxQuoteMicros }]) =>
    maxQuoteMicros <= (store.state().parts[index]?.agreedMicros ?? -1))
  if (!isAgreed && !settings.yes) {
    if (ask === undefined) {
      throw new UsageError('Nobody can be asked here whether to pay that: agree to it with --yes.')
    }
    if (!await ask(`Verify for at most ${money(total.maxQuoteMicros)}? [y/N] `)) {
      throw new CommandError('Nothing more was sent, and nothing paid for it.')
    }
  }
  for (const [index, { maxQuoteMicros }] of quotes) {
    store.updatePart(index, { agreedMicros: maxQuoteMicros })
  }
}

const COUNTRY_HINT = 'Numbers in national form, without + and country code, are invalid unless ' +
  '--country says where they belong, for example --country DE.'

const lacksCountry = ({ service, country }: Run['settings'], { invalidRows }: Counts) =>
  invalidRows > 0 && country === undefined && service !== 'email-validation'

async function quotesOf (
  { settings, parts, store }: Run, unsent: readonly number[]
): Promise<readonly (readonly [number, Preflight])[]> {
  const { file, plan: { column }, parts: slices } = store.state()
  const quotes: [number, Preflight][] = []
  for (const index of unsent) {
    const slice = slices[index]
    if (slice === undefined) continue
    const body = requestOf(settings, await contactsOf(settings.input, file, { slice, column }))
    const { preflight } = await patiently(() => parts.client.quote(body), parts)
    quotes.push([index, preflight])
    if (unsent.length > 1) parts.say(`Quoted ${quotes.length} of ${unsent.length} jobs.`)
  }
  return quotes
}

/** The preflights of several jobs as one. */
export function sumOf (preflights: readonly Counts[]): Counts {
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

type Standing = { readonly jobs: number, readonly availableMicros: number }

/** What is shown before anybody pays. */
export function priceLines (total: Counts, { jobs, availableMicros }: Standing): readonly string[] {
  const line = (label: string, rows: number, remark: string) =>
    `  ${label.padEnd(20)} ${count(rows).padStart(11)}  ${remark}`
  return [
    `${counted(total.totalRows, 'row')} in ${counted(jobs, 'job')}:`,
    line('invalid', total.invalidRows, 'free'),
    line('duplicates', total.duplicateRows, 'free'),
    line('known already', total.cacheHits, 'free while still known'),
    line('to be checked', total.freshChecks, 'paid when there is a verdict'),
    `Maximum price: ${money(total.maxQuoteMicros)}. Balance: ${money(availableMicros)} available.`,
  ]
}

/** The refusal of the service for too little balance, with what is missing. */
export function shortOf (requiredMicros: number, availableMicros: number): CommandError {
  return new CommandError('402 insufficient_balance: the maximum price is ' +
    `${money(requiredMicros)} and ${money(availableMicros)} is available; ` +
    `${money(requiredMicros - availableMicros)} is missing. Top the balance up and run the same ` +
    'command again.')
}
