import {
  BrokenCircuitError, circuitBreaker, CircuitState, ExponentialBackoff, fullJitterGenerator,
  handleWhen, noop, retry, SamplingBreaker, TaskCancelledError, timeout, TimeoutStrategy, wrap,
} from 'cockatiel'
import type { Reason, RowStatus } from '../../schemas/api/verdicts.ts'
import {
  addedEvidence, rateConfidence, type Evidence, mergeEvidence, packChecks,
} from '../cache/evidence.ts'
import type { ProviderLists, ProviderName } from '../jobs/checks.ts'
import { hasOptions, optionDate, optionName } from '../jobs/options.ts'
import {
  type Bucket, FairSlots, TokenBuckets, secondsUntil,
} from '../runtime/platform/limits.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { failSpan, inSpan, SpanKind } from '../runtime/platform/tracing.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import {
  type CheckRequest, NOT_YET, type Provider, type ProviderAnswer, ProviderError,
  type ProviderFailure, type ProviderRequest, type ProviderRow, type ProviderVerdict,
  type RateLimit, type RetryTime, UNCLEAR,
} from './provider.ts'

/** Creates each provider by name. */
export type Factories = Readonly<Partial<Record<ProviderName, () => Provider>>>

/** Why a row has no verdict yet, and when it is checked again. */
export type Waiting = RetryTime & {
  readonly reason: Reason
  /** It waits for a host, which may take hours, and not for a provider that is down. */
  readonly forHost: boolean
  /** Counts if the row is not checked again, which might find a better one. */
  readonly verdict?: ProviderVerdict
}

/**
 * Verdicts by row. The rows in `open` are to be checked again; a row in neither got no answer, or
 * every provider rejects it.
 */
export type CheckResult = {
  readonly verdicts: ReadonlyMap<number, ProviderVerdict>
  readonly open: ReadonlyMap<number, Waiting>
}

/** No provider was available for the row. */
export const NO_PROVIDER: Waiting = { reason: 'unavailable', afterMs: 0, forHost: false }

type CheckerOptions = {
  readonly lists: ProviderLists
  /** Checked in the same way, for rows of live keys that `lists` leave `unknown`. */
  readonly secondLists?: ProviderLists
  readonly limits: ProviderLimits
  readonly metrics?: Pick<Metrics, 'count' | 'observe' | 'watch'>
  readonly factories: Factories
}

type Rows = readonly ProviderRow[]

/**
 * The live checks of every service; all lists share one instance of each provider and its policies.
 * Rows of test keys are answered by the sandbox and never leave the process. A second opinion
 * replaces only an `unknown`, and its failure changes nothing. Throws RangeError if a list names a
 * provider that is not defined or does not serve the service.
 */
export class Checker {
  readonly #findProvider: FindProvider
  readonly #first: ReadonlyMap<ServiceSlug, readonly ResilientProvider[]>
  readonly #second: ReadonlyMap<ServiceSlug, readonly ResilientProvider[]>
  readonly #metrics: CheckerOptions['metrics']

  constructor (options: CheckerOptions) {
    const find = this.#findProvider = createProviders(options)
    this.#first = providersByService('PROVIDERS', options.lists, find)
    this.#second = providersByService('SECOND_OPINIONS', options.secondLists ?? {}, find)
    this.#metrics = options.metrics
  }

  async check (rows: Rows, request: CheckRequest): Promise<CheckResult> {
    const { service, mode, options, submissions, isLast = false } = request
    const results: Results = new Map()
    if (mode === 'test') {
      const sandbox = this.#findProvider('PROVIDERS', 'sandbox', service)
      await this.#askInOrder([sandbox], rows, request, results)
      return toResult(results, isLast)
    }
    const first = selectAnswering(this.#first.get(service) ?? [], options)
    const second = selectAnswering(this.#second.get(service) ?? [], options)
    if (first.length === 0 && options !== undefined) return { verdicts: new Map(), open: new Map() }
    const bySubmission = Map.groupBy(rows, ({ row }) => submissions?.of(row))
    const unsubmitted = bySubmission.get(undefined) ?? []
    const submitted = [...bySubmission].flatMap(([submission, some]) =>
      submission === undefined ? [] : [{ submission, id: String(submission.provider), some }])
    await Promise.all(submitted.map(async ({ submission, id, some }) => {
      const provider = [...first, ...second].find((it) => it.id === id)
      const failure = provider === undefined
        ? 'unavailable'
        : await this.#ask(provider, some, { ...request, submission }, results)
      if (failure !== undefined) waitForVendor(some, results)
    }))
    await this.#askInOrder(first, unsubmitted, request, results)
    if (second.length > 0) {
      // A second opinion that was bought as a batch is not bought once more.
      const asked = new Set(submitted.flatMap(({ id, some }) =>
        first.some((it) => it.id === id) ? [] : some.map(({ row }) => row)))
      const opinions: Results = new Map()
      await this.#askInOrder(second, rows.filter(({ row }) =>
        !asked.has(row) && isUnknown(results.get(row), isLast)), request, opinions)
      addOpinions(results, opinions, service)
    }
    return toResult(results, isLast)
  }

  /**
   * Asks the providers of a list in order; each gets only the rows of failed calls of the previous
   * one, so that no row is paid for twice. A call has at most `maxRows` rows.
   */
  async #askInOrder (
    list: readonly ResilientProvider[], rows: Rows, request: CheckRequest, results: Results
  ): Promise<void> {
    if (list.length === 0) for (const { row } of rows) results.set(row, 'down')
    let open = rows
    for (const provider of list) {
      if (open.length === 0) break
      const { maxRows = Infinity } = provider
      const calls = open.length <= maxRows
        ? [open]
        : Array.from({ length: Math.ceil(open.length / maxRows) }, (_, index) =>
          open.slice(index * maxRows, (index + 1) * maxRows))
      const failures = await Promise.all(
        calls.map((call) => this.#ask(provider, call, request, results)))
      const failed: ProviderRow[] = []
      for (const [index, failure] of failures.entries()) {
        if (failure === undefined) continue
        const { with: submitted = [], without = [] } = Object.groupBy(calls[index] ?? [],
          ({ row }) => request.submissions?.of(row) === undefined ? 'without' : 'with')
        for (const { row } of without) {
          const isRejected = failure === 'rejected_input' && results.get(row) !== 'down'
          results.set(row, isRejected ? 'rejected' : 'down')
        }
        waitForVendor(submitted, results)
        failed.push(...without)
      }
      open = failed
    }
  }

  /** Adds the answers of a provider, or returns its failure. */
  async #ask (
    provider: ResilientProvider, rows: Rows, request: VendorRequest, results: Results
  ): Promise<ProviderFailure | undefined> {
    const attributes = { provider: provider.id, rows: rows.length }
    return await inSpan({ name: 'provider ask', kind: SpanKind.CLIENT, attributes }, async span => {
      const failure = await this.#askMeasured(provider, rows, request, results)
      if (span !== undefined && failure !== undefined) failSpan(span, failure)
      return failure
    })
  }

  /** The answers are what the service may sell; those to unknown rows are ignored. */
  async #askMeasured (
    { id, check, collect }: ResilientProvider, rows: Rows, request: VendorRequest, results: Results
  ): Promise<ProviderFailure | undefined> {
    const { service, options = [], submission } = request
    const startedMs = performance.now()
    const count = (outcome: string, more: number) =>
      this.#metrics?.count('provider_checks_total', { service, provider: id, outcome }, more)
    try {
      const replies = await (submission === undefined ? check : collect)(rows, request)
      const answers = new Map(replies.map(answer => [answer.row, answer]))
      const outcomes = new Map<string, number>()
      for (const { row } of rows) {
        const answer = answers.get(row)
        if (answer === undefined) {
          results.delete(row)
          continue
        }
        const verdict = toSold(answer.verdict, service, options)
        results.set(row, verdict === answer.verdict ? answer : { ...answer, verdict })
        const outcome = answer.retry === undefined ? verdict.status : 'retry'
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
      }
      for (const [outcome, some] of outcomes) count(outcome, some)
      return undefined
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
      count(error.failure, rows.length)
      return error.failure
    } finally {
      const seconds = (performance.now() - startedMs) / 1_000
      this.#metrics?.observe('provider_call_seconds', { service, provider: id }, seconds)
    }
  }

  /** Whether checks of such rows are free and need no network. */
  isOffline (service: ServiceSlug, mode: CheckRequest['mode']): boolean {
    const providers = this.#providersOf(service)
    return mode === 'live' && providers.length > 0 &&
      providers.every((provider) => provider.isOffline === true)
  }

  /** Whether a provider of such rows takes batches. */
  takesBatches (service: ServiceSlug, mode: CheckRequest['mode']): boolean {
    return mode === 'live' &&
      this.#providersOf(service).some((provider) => provider.takesBatches === true)
  }

  #providersOf (service: ServiceSlug): readonly ResilientProvider[] {
    return [this.#first, this.#second].flatMap((lists) => lists.get(service) ?? [])
  }
}

/** The providers that answer all options. */
function selectAnswering (
  list: readonly ResilientProvider[], options: readonly string[] = []
): readonly ResilientProvider[] {
  return list.filter(provider =>
    options.every(option => provider.options?.includes(optionName(option)) === true))
}

const FAILURES = ['timeout', 'rate_limited', 'unavailable', 'auth', 'bad_response']

type FindProvider =
  (setting: string, name: ProviderName, service: ServiceSlug) => ResilientProvider

function createProviders ({ limits, metrics, factories }: CheckerOptions): FindProvider {
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
    const policies = { ...limits, ...provider.limits, breaks, onCircuit }
    const check = withResilience(provider, policies)
    // Neither the rate nor the circuit of submissions is that of the questions for their answers.
    const rate = provider.limits?.pollRate
    const asking = { ...policies, rate, onCircuit: () => {}, maxWaitMs: 0 }
    const collect = provider.takesBatches ? withResilience(provider, asking) : check
    metrics?.watch('provider_circuit_open', { provider: id }, () => Number(isOpen))
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

function providersByService (setting: string, lists: ProviderLists, find: FindProvider) {
  return new Map(SERVICE_SLUGS.map((service) =>
    [service, (lists[service] ?? []).map((name) => find(setting, name, service))]))
}

/** Whether the row needs a second opinion now: a row that is checked again does not. */
function isUnknown (result: RowResult | undefined, isLast: boolean): boolean {
  if (result === undefined || result === 'rejected') return true
  if (result === 'down') return isLast
  return result.verdict.status === 'unknown' && (result.retry === undefined || isLast)
}

/** A second result replaces the first one where it knows more; what both found is kept. */
function addOpinions (results: Results, opinions: Results, service: ServiceSlug): void {
  for (const [row, opinion] of opinions) {
    if (typeof opinion === 'string') continue
    const first = results.get(row)
    if (typeof first !== 'object') {
      results.set(row, opinion)
      continue
    }
    const addsNothing = opinion.verdict.status === 'unknown' && opinion.retry === undefined
    const verdict = mergeVerdicts(first.verdict, opinion.verdict, service)
    results.set(row, { ...addsNothing ? first : opinion, verdict })
  }
}

/** The later verdict if it is known, with what the earlier checks add to it. */
function mergeVerdicts (
  before: ProviderVerdict, verdict: ProviderVerdict, service: ServiceSlug
): ProviderVerdict {
  const latest = verdict.status === 'unknown' ? before : verdict
  const { status, reason, confidence } = latest
  const evidence = mergeEvidence(before.evidence, verdict.evidence)
  const claim = service.startsWith('carrier-') ? 'carrier' : reason
  const fields = { ...before.fields, ...verdict.fields }
  // The first check could not tell this mailbox from others, the second one can.
  if (reason === 'deliverable' && verdict.fields.catch_all === undefined) delete fields.catch_all
  return {
    ...latest,
    fields,
    evidence,
    confidence: status === 'unknown'
      ? 0
      : rateConfidence(claim, addedEvidence(before.evidence, verdict.evidence), confidence),
  }
}

function toResult (results: Results, isLast: boolean): CheckResult {
  const verdicts = new Map<number, ProviderVerdict>()
  const open = new Map<number, Waiting>()
  for (const [row, result] of results) {
    if (result === 'down') open.set(row, NO_PROVIDER)
    if (typeof result === 'string') continue
    const { verdict, retry } = result
    if (retry === undefined || isLast) {
      verdicts.set(row, verdict)
      continue
    }
    const terms = retry === true ? { afterMs: 0, forHost: false } : { ...retry, forHost: true }
    // A row may have a verdict that a further answer would confirm: it has not waited for a reason.
    open.set(row, verdict.status === 'unknown'
      ? { reason: verdict.reason, ...terms }
      : { reason: 'timeout', ...terms, verdict })
  }
  return { verdicts, open }
}

/** A provider with its resilience policies; `id` is its label in operators' metrics. */
type ResilientProvider = Omit<Provider, 'id' | 'check'> & {
  readonly id: string
  readonly check: Check
  /** `check` with the limits for answers of submissions. */
  readonly collect: Check
}

/** Asks for the answers of a submission to the given rows; without one, submits the rows. */
type VendorRequest = Omit<ProviderRequest, 'deadlineMs'>

/** What providers say of a row, or that none was available, or that all rejected it. */
type RowResult = ProviderAnswer | 'down' | 'rejected'

/** By row. A row that is missing was left out of an answer. */
type Results = Map<number, RowResult>

/** Rows that a vendor may have wait for it: another check would buy them twice. */
function waitForVendor (rows: Rows, results: Results): void {
  for (const { row } of rows) results.set(row, { row, verdict: NOT_YET, retry: true })
}

const BY_VENDOR: Readonly<Record<RowStatus, Evidence>> = {
  valid: packChecks({ vendor: 'passed' }),
  invalid: packChecks({ vendor: 'failed' }),
  risky: packChecks({ vendor: 'caution' }),
  unknown: packChecks({ vendor: 'inconclusive' }),
}

/** The verdict as the service may sell it. */
function toSold (
  verdict: ProviderVerdict, service: ServiceSlug, options: readonly string[]
): ProviderVerdict {
  const sold = requireOptions(requirePurpose(service, verdict), options)
  // A provider that does not say what it checked is a vendor.
  return sold.evidence === undefined ? { ...sold, evidence: BY_VENDOR[sold.status] } : sold
}

/**
 * The verdict if it has what the service exists for, else `unknown`: only verdicts are charged. A
 * carrier service exists for a carrier or a network code, a messenger for the registration, by
 * which a number is `invalid` or not.
 */
function requirePurpose (service: ServiceSlug, verdict: ProviderVerdict): ProviderVerdict {
  if (verdict.status === 'unknown') return verdict
  if (service === 'carrier-single' || service === 'carrier-lookup') return requireCarrier(verdict)
  if (service === 'whatsapp' || service === 'telegram') return requireAccount(service, verdict)
  return verdict
}

/** `unknown` verdicts by those without a carrier, so that equal verdicts stay one object. */
const lackingCarrier = new WeakMap<ProviderVerdict, ProviderVerdict>()

function requireCarrier (verdict: ProviderVerdict): ProviderVerdict {
  const { carrier, mcc, mnc } = verdict.fields
  if (carrier !== undefined || (mcc !== undefined && mnc !== undefined)) return verdict
  const earlier = lackingCarrier.get(verdict)
  if (earlier !== undefined) return earlier
  const reason = verdict.status === 'invalid' ? verdict.reason : 'carrier_unknown'
  const unknown = { ...verdict, status: 'unknown', reason, confidence: 0 } as const
  lackingCarrier.set(verdict, unknown)
  return unknown
}

/**
 * The verdict if it has the answers of all options, with the dates that they are about, else
 * `unknown`: the options are a part of what the job buys for each row.
 */
function requireOptions (verdict: ProviderVerdict, options: readonly string[]): ProviderVerdict {
  if (options.length === 0 || verdict.status === 'unknown') return verdict
  const since = options.map(optionDate).find(date => date !== undefined)
  const fields = { ...verdict.fields, ...since !== undefined && { reassigned_since: since } }
  if (hasOptions(fields, options)) return { ...verdict, fields }
  const reason = verdict.status === 'invalid' ? verdict.reason : 'option_not_answered'
  return { ...verdict, status: 'unknown', reason, confidence: 0 }
}

function requireAccount (
  service: 'whatsapp' | 'telegram', verdict: ProviderVerdict
): ProviderVerdict {
  const registered = verdict.fields[service]
  const isInvalid = verdict.status === 'invalid'
  if (registered !== String(!isInvalid)) return UNCLEAR
  return isInvalid || verdict.reason !== 'not_registered' ? verdict : UNCLEAR
}

type ProviderLimits = {
  /** Timeout of a call with all its retries. */
  readonly timeoutMs: number
  readonly attemptTimeoutMs: number
  /** Maximum concurrent calls of one provider; further ones wait, fairly between tenants. */
  readonly concurrency: number
  /** Maximum retries, only of calls that the provider did not accept. */
  readonly retries: number
  readonly breaker: BreakerLimits
  /** Maximum rate of calls by this process; unlimited if left out. */
  readonly rate?: RateLimit | undefined
}

type BreakerLimits = {
  /** The circuit opens if this share of the calls within `sampledMs` fails, 0 to 1. */
  readonly failingShare: number
  readonly sampledMs: number
  /** An open circuit admits a trial call after this time. */
  readonly openMs: number
}

type ResilienceOptions = ProviderLimits & {
  /** False for a provider with scripted failures: those of one tenant must not stop another. */
  readonly breaks: boolean
  /** A call that would wait longer for the rate fails with `rate_limited`. */
  readonly maxWaitMs?: number
  /** Called when the circuit opens, and when it closes or admits a trial call. */
  readonly onCircuit: (isOpen: boolean) => void
}

type Check = (rows: Rows, request: VendorRequest) => ReturnType<Provider['check']>

/** The circuit stays closed with fewer calls than this in the sampled time. */
const MIN_SAMPLED_CALLS = 10
const FIRST_RETRY_MS = 50
const NEVER = new AbortController().signal

/**
 * The check of a provider behind, from the outside in: slots that tenants share fairly, rate limit,
 * circuit breaker, retries with a timeout for all, and a timeout per attempt. After a failure with
 * a Retry-After, all calls fail until then. The check rejects with a `ProviderError` or, if the
 * caller's signal ended it, with the reason of that signal, which is no failure of the provider.
 * The call of a provider that takes batches is not cut off by the signal, so that its reply is
 * recorded.
 */
function withResilience (provider: Provider, limits: ResilienceOptions): Check {
  const rate = new CallRate(limits.rate)
  const slots = new FairSlots({ capacity: limits.concurrency, maxCredit: limits.concurrency })
  let openUntilMs = 0
  const breaker = limits.breaks
    ? createBreaker(limits.breaker, isOpen => {
      openUntilMs = isOpen ? performance.now() + limits.breaker.openMs : 0
      limits.onCircuit(isOpen)
    })
    : noop
  const attempts = withRetries(provider, limits, rate)
  return async (rows, request) => {
    const { signal, tenant = '' } = request
    const within = provider.takesBatches === true ? NEVER : signal
    const once = async () => {
      try {
        return await attempts(rows, { ...request, signal: within })
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof ProviderError && error.retryAfterMs) rate.pause(error.retryAfterMs)
        throw error
      }
    }
    try {
      return await slots.run({ name: tenant, cost: 1 }, async () => {
        // It would wait for the rate only to be rejected by the breaker then.
        if (performance.now() < openUntilMs) throw new ProviderError('unavailable')
        await rate.take(signal, limits.maxWaitMs)
        return await breaker.execute(once, within)
      }, signal)
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof BrokenCircuitError ? new ProviderError('unavailable') : error
    }
  }
}

/** All attempts of a call within its timeout. Retries use up the rate, but do not wait for it. */
function withRetries (provider: Provider, limits: ProviderLimits, rate: CallRate): Check {
  const { timeoutMs, attemptTimeoutMs, retries } = limits
  const attemptMs = Math.min(timeoutMs, attemptTimeoutMs)
  const call = wrap(
    createTimeout(timeoutMs),
    // Only a call that the provider did not accept is free to retry, unless it has a Retry-After.
    retry(handleWhen(error => error instanceof ProviderError && error.failure === 'unavailable' &&
      !error.retryAfterMs), {
      maxAttempts: retries,
      backoff: new ExponentialBackoff({
        initialDelay: FIRST_RETRY_MS, generator: fullJitterGenerator,
      }),
    }))
  const single = createTimeout(attemptMs)
  return (rows, request) => {
    const { signal } = request
    const endsAtMs = Date.now() + timeoutMs
    return asTimeout(call.execute(({ signal: within, attempt }) => {
      if (attempt > 0) rate.charge()
      const deadlineMs = Math.min(endsAtMs, Date.now() + attemptMs)
      return asTimeout(single.execute(({ signal: inner }) =>
        provider.check(rows, { ...request, signal: inner, deadlineMs }), within ?? signal))
    }, signal))
  }
}

function createTimeout (ms: number) {
  return timeout(ms, { strategy: TimeoutStrategy.Aggressive, abortOnReturn: true })
}

/** Turns a timeout into a ProviderError, which the outer policies recognize. */
async function asTimeout<T> (work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw error instanceof TaskCancelledError ? new ProviderError('timeout') : error
  }
}

function createBreaker (
  { failingShare, sampledMs, openMs }: BreakerLimits, onCircuit: (isOpen: boolean) => void
) {
  // A rejected input says nothing about the health of the provider.
  const isUnhealthy = (error: unknown) =>
    error instanceof ProviderError && error.failure !== 'rejected_input'
  const breaker = circuitBreaker(handleWhen(isUnhealthy), {
    halfOpenAfter: openMs,
    breaker: new SamplingBreaker({
      threshold: failingShare,
      duration: sampledMs,
      minimumRps: MIN_SAMPLED_CALLS / (sampledMs / 1_000),
    }),
  })
  breaker.onStateChange(state => onCircuit(state === CircuitState.Open))
  return breaker
}

/** Limits the Retry-After that a provider asks for. */
const MAX_PAUSE_MS = 900_000
/** The buckets have one name: each provider has its own. */
const NAME = ''

/** The rate of calls, first come, first served; without a limit only pauses stop calls. */
class CallRate {
  readonly #tokens = new TokenBuckets(undefined, 1)
  readonly #buckets: readonly [] | readonly [Bucket]
  #pausedUntilMs = 0

  constructor (limit: RateLimit | undefined) {
    this.#buckets = limit === undefined
      ? []
      : [{ capacity: limit.calls, seconds: limit.perMs / 1_000 }]
  }

  /**
   * Waits until a call may start. Rejects with `rate_limited` at once during a pause, or if the
   * wait would be longer than `maxWaitMs`. A call that did not start does not count.
   */
  async take (signal: AbortSignal, maxWaitMs = Infinity): Promise<void> {
    this.#throwIfPaused()
    this.charge()
    const [level] = this.#tokens.levels(NAME, this.#buckets)
    const waitMs = level === undefined ? 0 : secondsUntil(level, 0) * 1_000
    if (waitMs === 0) return
    try {
      if (waitMs > maxWaitMs) throw new ProviderError('rate_limited', waitMs)
      await sleep(waitMs, signal)
      this.#throwIfPaused()
    } catch (error) {
      this.#tokens.add(NAME, this.#buckets, 1)
      throw error
    }
  }

  /** Counts a call that did not wait; later calls wait longer. */
  charge (): void {
    this.#tokens.add(NAME, this.#buckets, -1)
  }

  /** Rejects all calls for this time. */
  pause (ms: number): void {
    this.#pausedUntilMs = performance.now() + Math.min(ms, MAX_PAUSE_MS)
  }

  #throwIfPaused (): void {
    const leftMs = this.#pausedUntilMs - performance.now()
    if (leftMs > 0) throw new ProviderError('rate_limited', leftMs)
  }
}
