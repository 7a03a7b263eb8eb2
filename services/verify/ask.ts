import type { Metrics } from '../lib/metrics.ts'
import { failSpan, inSpan, SpanKind } from '../lib/tracing.ts'
import type { ServiceSlug } from '../topology.ts'
import type { Check } from './policy.ts'
import {
  ProviderError, type Provider, type ProviderAnswer, type ProviderFailure, type ProviderRow,
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
 * `answers` by row. A row that has none is in `failed` when no provider could answer it, true if
 * every one of them rejected it; otherwise one answered and left the row out.
 */
export type Asked = {
  readonly answers: ReadonlyMap<number, ProviderAnswer>
  readonly failed: ReadonlyMap<number, boolean>
}

/**
 * Asks a list of providers, the next one only for rows of calls that failed, so that no answer that
 * was had is asked for again. A provider gets no more rows a call than it takes.
 */
export async function askInTurn (
  list: readonly Guarded[], rows: readonly ProviderRow[], options: AskOptions
): Promise<Asked> {
  let answers = new Map<number, ProviderAnswer>()
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
      } else if (answers.size === 0) answers = reply
      else for (const [row, answer] of reply) answers.set(row, answer)
    }
    open = failed
  }
  const isRejected = (row: number) => list.length > 0 && !unanswered.has(row)
  return { answers, failed: new Map(open.map(({ row }) => [row, isRejected(row)])) }
}

function slicesOf (rows: readonly ProviderRow[], most = Infinity):
readonly (readonly ProviderRow[])[] {
  if (rows.length <= most) return [rows]
  return Array.from({ length: Math.ceil(rows.length / most) }, (_, index) =>
    rows.slice(index * most, (index + 1) * most))
}

/** The answers by row, or how the provider failed; answers for rows nobody asked are dropped. */
async function ask (
  provider: Guarded, rows: readonly ProviderRow[], options: AskOptions
): Promise<Map<number, ProviderAnswer> | ProviderFailure> {
  const attributes = { provider: provider.id, rows: rows.length }
  return await inSpan({ name: 'provider ask', kind: SpanKind.CLIENT, attributes }, async span => {
    const reply = await answersOf(provider, rows, options)
    if (span !== undefined && typeof reply === 'string') failSpan(span, reply)
    return reply
  })
}

async function answersOf (
  { id, check }: Guarded, rows: readonly ProviderRow[], options: AskOptions
): Promise<Map<number, ProviderAnswer> | ProviderFailure> {
  const { service, signal, metrics } = options
  const startedMs = performance.now()
  const asked = new Set(rows.map(({ row }) => row))
  const count = (outcome: string, more: number) =>
    metrics?.count('provider_checks_total', { service, provider: id, outcome }, more)
  try {
    const answers = await check(rows, { service, signal })
    const byRow = new Map<number, ProviderAnswer>()
    const outcomes = new Map<string, number>()
    for (const answer of answers) if (asked.has(answer.row)) byRow.set(answer.row, answer)
    for (const { verdict, again } of byRow.values()) {
      const outcome = again ? 'put_off' : verdict.status
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    for (const [outcome, more] of outcomes) count(outcome, more)
    return byRow
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    count(error.failure, rows.length)
    return error.failure
  } finally {
    const seconds = (performance.now() - startedMs) / 1_000
    metrics?.observe('provider_call_seconds', { service, provider: id }, seconds)
  }
}
