import { confidenceOf } from '../cache/confidence.ts'
import { addedEvidence, mergeEvidence } from '../cache/evidence.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { ProviderLists, ProviderName } from '../jobs/checks.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import {
  checkWithFallback, collectAnswers, type FallbackResult, type ResilientProvider,
} from './fallback.ts'
import type {
  Provider, ProviderRow, ProviderVerdict, VendorSubmission, Submissions,
} from './provider.ts'
import { withResilience, type ProviderLimits } from './resilience.ts'

/** Creates each provider by name. */
export type Factories = Readonly<Partial<Record<ProviderName, () => Provider>>>

export type CheckRequest = {
  readonly service: ServiceSlug
  readonly mode: 'live' | 'test'
  readonly signal: AbortSignal
  /** The rows will not be checked again, so the current verdict of every row counts. */
  readonly isLast?: boolean
  /** The rows were not checked before. */
  readonly isFirst?: boolean
  /** What vendors have of the batch; needed for providers that take batches. */
  readonly submissions?: Submissions | undefined
}

/**
 * `answered`: verdicts by row; the rows in `open` are to be checked again, and any other row
 * without a verdict got no answer. `rejected`: every provider rejects such rows. `down`: there is
 * no verdict for any row yet.
 */
export type CheckResult =
  | {
    readonly kind: 'answered'
    readonly verdicts: ReadonlyMap<number, ProviderVerdict>
    readonly open?: ReadonlySet<number>
  }
  | { readonly kind: 'rejected' }
  | { readonly kind: 'down' }

export type Checker = {
  (rows: readonly ProviderRow[], request: CheckRequest): Promise<CheckResult>
  /** Whether checks of such rows are free and need no network. */
  readonly isOffline?: (request: Pick<CheckRequest, 'service' | 'mode'>) => boolean
  /** Whether a provider of such rows takes batches. */
  readonly takesBatches?: (request: Pick<CheckRequest, 'service' | 'mode'>) => boolean
}

type CheckerOptions = {
  readonly lists: ProviderLists
  /** Checked in the same way, for rows of live keys that `lists` leave `unknown`. */
  readonly secondLists?: ProviderLists
  readonly limits: ProviderLimits
  readonly metrics?: Pick<Metrics, 'count' | 'observe'> & Partial<Pick<Metrics, 'watch'>>
  readonly factories: Factories
}

/**
 * The live checks of every service; all lists share one instance of each provider and its policies.
 * Rows of test keys are answered by the sandbox and never leave the process. A second opinion
 * replaces only an `unknown`, and its failure changes nothing. Throws RangeError if a list names a
 * provider that is not defined or does not serve the service.
 */
export function createChecker (options: CheckerOptions): Checker {
  const providerOf = createProviders(options)
  const first = providersByService('PROVIDERS', options.lists, providerOf)
  const second = providersByService('SECOND_OPINIONS', options.secondLists ?? {}, providerOf)
  const check: Checker = async (rows, request) => {
    const { service, mode, signal, isLast = false, isFirst, submissions } = request
    const asking = { service, signal, isLast, isFirst, submissions, metrics: options.metrics }
    const checkBy = async (list: readonly ResilientProvider[], some: readonly ProviderRow[]) =>
      await checkWithFallback(list, some, asking)
    if (mode === 'test') {
      const sandbox = providerOf('PROVIDERS', 'sandbox', service)
      return resultOf(rows, await checkBy([sandbox], rows), isLast)
    }
    const others = second.get(service) ?? []
    const listed = first.get(service) ?? []
    const submitted = bySubmission(rows, submissions)
    const collected = await Promise.all([...submitted].map(async ([submission, some]) => {
      const id = String(submission.provider)
      const provider = [...listed, ...others].find((one) => one.id === id)
      return await collectAnswers(provider, some, { ...asking, submission })
    }))
    const fresh = rows.filter(({ row }) => submissions?.of(row) === undefined)
    const result = joined([...collected, await checkBy(listed, fresh)])
    // A second opinion that was bought as a batch is not bought once more.
    const asked = new Set([...submitted].flatMap(([{ provider }, some]) =>
      listed.some(({ id }) => id === String(provider)) ? [] : some.map(({ row }) => row)))
    const unknown = others.length === 0
      ? []
      : rows.filter(({ row }) => !asked.has(row) && isUnknown(result, row, isLast))
    if (unknown.length === 0) return resultOf(rows, result, isLast)
    const opinions = await checkBy(others, unknown)
    return resultOf(rows, merged(result, opinions, service), isLast)
  }
  const isOffline: Checker['isOffline'] = ({ service, mode }) => {
    const providers = [first, second].flatMap((lists) => lists.get(service) ?? [])
    return mode === 'live' && providers.length > 0 &&
      providers.every((provider) => provider.isOffline === true)
  }
  const takesBatches: Checker['takesBatches'] = ({ service, mode }) =>
    mode === 'live' && [first, second].flatMap((lists) => lists.get(service) ?? [])
      .some((provider) => provider.takesBatches === true)
  return Object.assign(check, { isOffline, takesBatches })
}

/** The rows of each submission. */
function bySubmission (
  rows: readonly ProviderRow[], submissions: Submissions | undefined
): ReadonlyMap<VendorSubmission, readonly ProviderRow[]> {
  const found = new Map<VendorSubmission, ProviderRow[]>()
  for (const row of rows) {
    const submission = submissions?.of(row.row)
    if (submission === undefined) continue
    const some = found.get(submission) ?? []
    some.push(row)
    found.set(submission, some)
  }
  return found
}

/** Results of different rows as one. */
function joined (results: readonly FallbackResult[]): FallbackResult {
  const [only, ...more] = results
  if (only !== undefined && more.length === 0) return only
  return {
    answers: new Map(results.flatMap(({ answers }) => [...answers])),
    retry: new Set(results.flatMap(({ retry }) => [...retry])),
    failed: new Map(results.flatMap(({ failed }) => [...failed])),
  }
}

const FAILURES = ['timeout', 'rate_limited', 'unavailable', 'auth', 'bad_response']

type ProviderOf = (setting: string, name: ProviderName, service: ServiceSlug) => ResilientProvider

function createProviders ({ limits, metrics, factories }: CheckerOptions): ProviderOf {
  const created = new Map<ProviderName, ResilientProvider>()
  const create = (setting: string, name: ProviderName) => {
    const provider = factories[name]?.()
    if (provider === undefined) {
      throw new RangeError(`${setting} names the provider ${name}, which is not defined; ` +
        'describe it in HTTP_PROVIDERS, or remove it from the list')
    }
    const breaks = name !== 'sandbox'
    const id = String(provider.id)
    let isOpen = false
    const onCircuit = (now: boolean) => { isOpen = now }
    const own = { ...limits, ...provider.limits, breaks, onCircuit }
    const check = withResilience(provider, own)
    // Neither the rate nor the circuit of submissions is that of the questions for their answers.
    const asking = { ...own, rate: provider.limits?.pollRate, onCircuit: () => {}, maxWaitMs: 0 }
    const collect = provider.takesBatches ? withResilience(provider, asking) : check
    metrics?.watch?.('provider_circuit_open', { provider: id }, () => Number(isOpen))
    // A series that starts with its first failure would hide that failure from rates.
    for (const service of provider.services) {
      for (const outcome of FAILURES) {
        metrics?.count('provider_checks_total', { service, provider: id, outcome }, 0)
      }
    }
    const resilient = { ...provider, id, check, collect }
    created.set(name, resilient)
    return resilient
  }
  return (setting, name, service) => {
    const provider = created.get(name) ?? create(setting, name)
    if (provider.services.includes(service)) return provider
    throw new RangeError(`${setting} names the provider ${name} for ${service}, but it serves ` +
      `only ${provider.services.join(', ')}; remove it from the list`)
  }
}

function providersByService (setting: string, lists: ProviderLists, providerOf: ProviderOf) {
  return new Map(SERVICE_SLUGS.map((service) =>
    [service, (lists[service] ?? []).map((name) => providerOf(setting, name, service))]))
}

/** Whether the row needs a second opinion now: a row that is checked again does not. */
function isUnknown ({ answers, retry, failed }: FallbackResult, row: number, isLast: boolean) {
  const verdict = answers.get(row)
  if (verdict === undefined) return failed.get(row) !== false || isLast
  return verdict.status === 'unknown' && (!retry.has(row) || isLast)
}

/** The second result replaces the first one where it knows more; what both found is kept. */
function merged (
  first: FallbackResult, second: FallbackResult, service: ServiceSlug
): FallbackResult {
  const answers = new Map(first.answers)
  const retry = new Set(first.retry)
  const failed = new Map(first.failed)
  for (const [row, verdict] of second.answers) {
    const before = answers.get(row)
    const isKnown = verdict.status !== 'unknown'
    const isRetried = second.retry.has(row)
    answers.set(row, before === undefined ? verdict : mergedVerdict(before, verdict, service))
    if (before !== undefined && !isKnown && !isRetried) continue
    if (isRetried) retry.add(row)
    else retry.delete(row)
    failed.delete(row)
  }
  return { answers, retry, failed }
}

/** The later verdict if it is known, with what the earlier checks add to it. */
function mergedVerdict (
  before: ProviderVerdict, verdict: ProviderVerdict, service: ServiceSlug
): ProviderVerdict {
  const known = verdict.status === 'unknown' ? before : verdict
  const { status, reason, confidence } = known
  const evidence = mergeEvidence(before.evidence, verdict.evidence)
  const claim = service.startsWith('carrier-') ? 'carrier' : reason
  return {
    ...known,
    fields: { ...before.fields, ...verdict.fields },
    evidence,
    confidence: status === 'unknown'
      ? 0
      : confidenceOf(claim, addedEvidence(before.evidence, verdict.evidence), confidence),
  }
}

function resultOf (
  rows: readonly ProviderRow[], { answers, retry, failed }: FallbackResult, isLast: boolean
): CheckResult {
  const down = [...failed].filter(([, rejected]) => !rejected).map(([row]) => row)
  if (failed.size === rows.length && down.length === 0) return { kind: 'rejected' }
  const open = new Set(isLast ? down : [...down, ...retry])
  if (open.size === 0) return { kind: 'answered', verdicts: answers }
  if (open.size === rows.length) return { kind: 'down' }
  const verdicts = new Map([...answers].filter(([row]) => !open.has(row)))
  return { kind: 'answered', verdicts, open }
}
