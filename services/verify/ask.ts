import type { Metrics } from '../lib/metrics.ts'
import { failSpan, inSpan, SpanKind } from '../lib/tracing.ts'
import type { ServiceSlug } from '../topology.ts'
import type { Check } from './policy.ts'
import {
  ProviderError, type Provider, type ProviderFailure, type ProviderRow, type ProviderVerdict,
} from './provider.ts'

/** A provider behind its policies; `id` is what operators' metrics show of it. */
export type Guarded = Pick<Provider, 'services' | 'maxRows' | 'asksNobody'> & {
  readonly id: string
  readonly check: Check
}

export type AskOptions = {
  readonly service: ServiceSlug
  readonly signal: AbortSignal
  readonly metrics?: Pick<Metrics, 'count' | 'observe'> | undefined
}

/**
 * Verdicts by row; those of the rows in `again` hold only if they can't be asked for again. A row
 * that has none is in `failed` when no provider could answer it, true if every one of them rejected
 * it; otherwise one answered and left the row out.
 */
export type Asked = {
  readonly answers: ReadonlyMap<number, ProviderVerdict>
  readonly again: ReadonlySet<number>
  readonly failed: ReadonlyMap<number, boolean>
}

type Answers = { readonly answers: Map<number, ProviderVerdict>, readonly again: Set<number> }

/**
 * Asks a list of providers, the next one only for rows of calls that failed, so that no answer that
 * was had is asked for again. A provider gets no more rows a call than it takes.
 */
export async function askInTurn (
  list: readonly Guarded[], rows: readonly ProviderRow[], options: AskOptions
): Promise<Asked> {
  let found: Answers = { answers: new Map(), again: new Set() }
  let open = rows
  const unanswered = new Set<number>()
  for (const provider of list) {
    if (open.length === 0) break
    const calls = slicesOf(open, provider.maxRows)
    const replies = await Promise.all(calls.map((slice) => ask(provider, slice, options)))
    const failed: ProviderRow[] = []
    for (const [index, reply] of replies.entries()) {
      const call = calls[index] ?? []
      if (typeof reply === 'string') {
        failed.push(...call)
        if (reply !== 'rejected_input') for (const { row } of call) unanswered.add(row)
      } else if (found.answers.size === 0) found = reply
      else addAll(found, reply)
    }
    open = failed
  }
  const isRejected = (row: number) => list.length > 0 && !unanswered.has(row)
  return { ...found, failed: new Map(open.map(({ row }) => [row, isRejected(row)])) }
}

function addAll (found: Answers, more: Answers): void {
  for (const [row, verdict] of more.answers) found.answers.set(row, verdict)
  for (const row of more.again) found.again.add(row)
}

function slicesOf (rows: readonly ProviderRow[], most = Infinity):
readonly (readonly ProviderRow[])[] {
  if (rows.length <= most) return [rows]
  return Array.from({ length: Math.ceil(rows.length / most) }, (_, index) =>
    rows.slice(index * most, (index + 1) * most))
}

/** The answers, or how the provider failed; answers for rows nobody asked are dropped. */
async function ask (
  provider: Guarded, rows: readonly ProviderRow[], options: AskOptions
): Promise<Answers | ProviderFailure> {
  const attributes = { provider: provider.id, rows: rows.length }
  return await inSpan({ name: 'provider ask', kind: SpanKind.CLIENT, attributes }, async span => {
    const reply = await answersOf(provider, rows, options)
    if (span !== undefined && typeof reply === 'string') failSpan(span, reply)
    return reply
  })
}

async function answersOf (
  { id, check }: Guarded, rows: readonly ProviderRow[], options: AskOptions
): Promise<Answers | ProviderFailure> {
  const { service, signal, metrics } = options
  const startedMs = performance.now()
  const asked = new Set(rows.map(({ row }) => row))
  const count = (outcome: string, more: number) =>
    metrics?.count('provider_checks_total', { service, provider: id, outcome }, more)
  try {
    const found: Answers = { answers: new Map(), again: new Set() }
    for (const { row, verdict, again } of await check(rows, { service, signal })) {
      if (!asked.has(row)) continue
      found.answers.set(row, verdict)
      if (again === true) found.again.add(row)
      else found.again.delete(row)
    }
    for (const [outcome, more] of outcomesOf(found)) count(outcome, more)
    return found
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    count(error.failure, rows.length)
    return error.failure
  } finally {
    const seconds = (performance.now() - startedMs) / 1_000
    metrics?.observe('provider_call_seconds', { service, provider: id }, seconds)
  }
}

/** How many rows ended in each way. */
function outcomesOf ({ answers, again }: Answers): ReadonlyMap<string, number> {
  const outcomes = new Map<string, number>()
  for (const [row, { status }] of answers) {
    const outcome = again.has(row) ? 'put_off' : status
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }
  return outcomes
}
