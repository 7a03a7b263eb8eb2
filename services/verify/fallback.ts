import { packChecks, type Evidence } from '../cache/evidence.ts'
import type { RowStatus } from '../../schemas/api/verdicts.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { failSpan, inSpan, SpanKind } from '../runtime/platform/tracing.ts'
import type { ServiceSlug } from '../topology.ts'
import {
  ProviderError, type BatchOptions, type Provider, type ProviderFailure, type ProviderRow,
  type ProviderVerdict, type VendorSubmission,
} from './provider.ts'
import type { Check } from './resilience.ts'

/** A provider with its resilience policies; `id` is its label in operators' metrics. */
export type ResilientProvider =
  Pick<Provider, 'services' | 'maxRows' | 'isOffline' | 'takesBatches'> & {
    readonly id: string
    readonly check: Check
    /** `check` of a provider that takes batches, with the limits for answers of submissions. */
    readonly collect?: Check
  }

type FallbackOptions = BatchOptions & {
  readonly service: ServiceSlug
  readonly signal: AbortSignal
  readonly metrics?: Pick<Metrics, 'count' | 'observe'> | undefined
}

/**
 * Verdicts by row. Those of the rows in `retry` count only if a later check is not possible.
 * `failed` has the rows that no provider could answer, with whether all of them rejected the input.
 * A row in neither was left out of an answer.
 */
export type FallbackResult = {
  readonly answers: ReadonlyMap<number, ProviderVerdict>
  readonly retry: ReadonlySet<number>
  readonly failed: ReadonlyMap<number, boolean>
}

type Answers = { readonly answers: Map<number, ProviderVerdict>, readonly retry: Set<number> }

/**
 * Calls the providers of a list in order; each gets only the rows of failed calls of the previous
 * one, so that no row is paid for twice. A call has at most `maxRows` rows.
 */
export async function checkWithFallback (
  list: readonly ResilientProvider[], rows: readonly ProviderRow[], options: FallbackOptions
): Promise<FallbackResult> {
  let found: Answers = { answers: new Map(), retry: new Set() }
  let open = rows
  const notRejected = new Set<number>()
  for (const provider of list) {
    if (open.length === 0) break
    const calls = chunksOf(open, provider.maxRows)
    const replies = await Promise.all(calls.map((call) => checkTraced(provider, call, options)))
    const failed: ProviderRow[] = []
    for (const [index, reply] of replies.entries()) {
      const call = calls[index] ?? []
      if (typeof reply === 'string') {
        const others = call.filter(({ row }) => options.submissions?.of(row) === undefined)
        failed.push(...others)
        if (reply !== 'rejected_input') for (const { row } of others) notRejected.add(row)
        if (others.length < call.length) addAll(found, waiting(call, options))
      } else if (found.answers.size === 0) found = reply
      else addAll(found, reply)
    }
    open = failed
  }
  const isRejected = (row: number) => list.length > 0 && !notRejected.has(row)
  return { ...found, failed: new Map(open.map(({ row }) => [row, isRejected(row)])) }
}

/** The verdict of a row that a vendor may have, if there is no answer until the deadline. */
const NOT_YET: ProviderVerdict = { status: 'unknown', reason: 'timeout', confidence: 0, fields: {} }

/** Rows that a vendor may have wait for it: another check would buy them twice. */
function waiting (
  rows: readonly ProviderRow[], { submissions }: Pick<BatchOptions, 'submissions'>
): Answers {
  const held = rows.filter(({ row }) => submissions?.of(row) !== undefined)
  return {
    answers: new Map(held.map(({ row }) => [row, NOT_YET])),
    retry: new Set(held.map(({ row }) => row)),
  }
}

/**
 * The answers of a submission to some of its rows. They wait if the provider fails or is not
 * configured any more.
 */
export async function collectAnswers (
  provider: ResilientProvider | undefined, rows: readonly ProviderRow[],
  options: FallbackOptions & { readonly submission: VendorSubmission }
): Promise<FallbackResult> {
  const reply = provider === undefined ? undefined : await checkTraced(provider, rows, options)
  const found = typeof reply === 'object' ? reply : waiting(rows, options)
  return { ...found, failed: new Map() }
}

function addAll (found: Answers, more: Answers): void {
  for (const [row, verdict] of more.answers) found.answers.set(row, verdict)
  for (const row of more.retry) found.retry.add(row)
}

function chunksOf (rows: readonly ProviderRow[], maxRows = Infinity):
readonly (readonly ProviderRow[])[] {
  if (rows.length <= maxRows) return [rows]
  return Array.from({ length: Math.ceil(rows.length / maxRows) }, (_, index) =>
    rows.slice(index * maxRows, (index + 1) * maxRows))
}

async function checkTraced (
  provider: ResilientProvider, rows: readonly ProviderRow[], options: FallbackOptions
): Promise<Answers | ProviderFailure> {
  const attributes = { provider: provider.id, rows: rows.length }
  return await inSpan({ name: 'provider ask', kind: SpanKind.CLIENT, attributes }, async span => {
    const reply = await checkMeasured(provider, rows, options)
    if (span !== undefined && typeof reply === 'string') failSpan(span, reply)
    return reply
  })
}

/**
 * The answers as the service may sell them, or the failure of the provider; answers to unknown rows
 * are ignored.
 */
async function checkMeasured (
  { id, check, collect }: ResilientProvider, rows: readonly ProviderRow[],
  options: FallbackOptions
): Promise<Answers | ProviderFailure> {
  const { metrics, ...more } = options
  const { service } = more
  const call = more.submission === undefined ? check : collect ?? check
  const startedMs = performance.now()
  const requested = new Set(rows.map(({ row }) => row))
  const count = (outcome: string, more: number) =>
    metrics?.count('provider_checks_total', { service, provider: id, outcome }, more)
  try {
    const found: Answers = { answers: new Map(), retry: new Set() }
    for (const { row, verdict, retry } of await call(rows, more)) {
      if (!requested.has(row)) continue
      found.answers.set(row, withEvidence(verdictFor(service, verdict)))
      if (retry === true) found.retry.add(row)
      else found.retry.delete(row)
    }
    for (const [outcome, more] of rowsByOutcome(found)) count(outcome, more)
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

/** The number of rows with each outcome. */
function rowsByOutcome ({ answers, retry }: Answers): ReadonlyMap<string, number> {
  const outcomes = new Map<string, number>()
  for (const [row, { status }] of answers) {
    const outcome = retry.has(row) ? 'retry' : status
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }
  return outcomes
}

const BY_VENDOR: Readonly<Record<RowStatus, Evidence>> = {
  valid: packChecks({ vendor: 'passed' }),
  invalid: packChecks({ vendor: 'failed' }),
  risky: packChecks({ vendor: 'caution' }),
  unknown: packChecks({ vendor: 'inconclusive' }),
}

/** A provider that does not say what it checked is a vendor. */
function withEvidence (verdict: ProviderVerdict): ProviderVerdict {
  return verdict.evidence === undefined
    ? { ...verdict, evidence: BY_VENDOR[verdict.status] }
    : verdict
}

/**
 * The verdict if it has what the service exists for, else `unknown`: only verdicts are charged. A
 * carrier service exists for a carrier or a network code, a messenger for the registration, by
 * which a number is `invalid` or not. Equal verdicts stay one object.
 */
export function verdictFor (service: ServiceSlug, verdict: ProviderVerdict): ProviderVerdict {
  if (verdict.status === 'unknown') return verdict
  if (service === 'carrier-single' || service === 'carrier-lookup') return withCarrier(verdict)
  if (service === 'whatsapp' || service === 'telegram') return withAccount(service, verdict)
  return verdict
}

const withoutCarrier = new WeakMap<ProviderVerdict, ProviderVerdict>()

function withCarrier (verdict: ProviderVerdict): ProviderVerdict {
  const { carrier, mcc, mnc } = verdict.fields
  if (carrier !== undefined || (mcc !== undefined && mnc !== undefined)) return verdict
  const known = withoutCarrier.get(verdict)
  if (known !== undefined) return known
  const reason = verdict.status === 'invalid' ? verdict.reason : 'carrier_unknown'
  const unknown = { ...verdict, status: 'unknown', reason, confidence: 0 } as const
  withoutCarrier.set(verdict, unknown)
  return unknown
}

const UNCLEAR: ProviderVerdict = {
  status: 'unknown', reason: 'unclear_answer', confidence: 0, fields: {},
}

function withAccount (
  service: 'whatsapp' | 'telegram', verdict: ProviderVerdict
): ProviderVerdict {
  const registered = verdict.fields[service]
  const isInvalid = verdict.status === 'invalid'
  if (registered !== String(!isInvalid)) return UNCLEAR
  return isInvalid || verdict.reason !== 'not_registered' ? verdict : UNCLEAR
}
