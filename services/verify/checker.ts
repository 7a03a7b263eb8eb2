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
  type CheckRequest, NOT_YET, type Provider, ProviderError, type ProviderFailure,
  type ProviderRequest, type ProviderRow, type ProviderVerdict, type RateLimit, type RetryTime,
  UNCLEAR,
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
    if (mode === 'test') {
      const sandbox = this.#findProvider('PROVIDERS', 'sandbox', service)
      return toResult(await this.#askInOrder([sandbox], rows, request), isLast)
    }
    const first = selectAnswering(this.#first.get(service) ?? [], options)
    const second = selectAnswering(this.#second.get(service) ?? [], options)
    if (first.length === 0 && options !== undefined) return { verdicts: new Map(), open: new Map() }
    const bySubmission = Map.groupBy(rows, ({ row }) => submissions?.of(row))
    const unsubmitted = bySubmission.get(undefined) ?? []
    const submitted = [...bySubmission].flatMap(([submission, some]) =>
      submission === undefined ? [] : [{ submission, id: String(submission.provider), some }])
    const collected = await Promise.all(submitted.map(async ({ submission, id, some }) => {
      const provider = [...first, ...second].find((it) => it.id === id)
      return await this.#collect(provider, some, { ...request, submission })
    }))
    const result = joinResults([...collected, await this.#askInOrder(first, unsubmitted, request)])
    // A second opinion that was bought as a batch is not bought once more.
    const asked = new Set(submitted.flatMap(({ id, some }) =>
      first.some((it) => it.id === id) ? [] : some.map(({ row }) => row)))
    const unknown = second.length === 0
      ? []
      : rows.filter(({ row }) => !asked.has(row) && isUnknown(result, row, isLast))
    if (unknown.length === 0) return toResult(result, isLast)
    const opinions = await this.#askInOrder(second, unknown, request)
    return toResult(mergeOpinions(result, opinions, service), isLast)
  }

  /**
   * Asks the providers of a list in order; each gets only the rows of failed calls of the previous
   * one, so that no row is paid for twice. A call has at most `maxRows` rows.
   */
  async #askInOrder (
    list: readonly ResilientProvider[], rows: Rows, request: CheckRequest
  ): Promise<CollectedAnswers> {
    let collected: Answers = { answers: new Map(), retry: new Map() }
    let open = rows
    const notRejected = new Set<number>()
    for (const provider of list) {
      if (open.length === 0) break
      const { maxRows = Infinity } = provider
      const calls = open.length <= maxRows
        ? [open]
        : Array.from({ length: Math.ceil(open.length / maxRows) }, (_, index) =>
          open.slice(index * maxRows, (index + 1) * maxRows))
      const replies = await Promise.all(calls.map((call) => this.#ask(provider, call, request)))
      const failed: ProviderRow[] = []
      for (const [index, reply] of replies.entries()) {
        const call = calls[index] ?? []
        if (typeof reply === 'string') {
          const others = call.filter(({ row }) => request.submissions?.of(row) === undefined)
          failed.push(...others)
          if (reply !== 'rejected_input') for (const { row } of others) notRejected.add(row)
          if (others.length < call.length) addAll(collected, waitForVendor(call, request))
        } else if (collected.answers.size === 0) collected = reply
        else addAll(collected, reply)
      }
      open = failed
    }
    const isRejected = (row: number) => list.length > 0 && !notRejected.has(row)
    return { ...collected, failed: new Map(open.map(({ row }) => [row, isRejected(row)])) }
  }

  /**
   * The answers of a submission to some of its rows. They wait if the provider fails or is not
   * configured any more.
   */
  async #collect (
    provider: ResilientProvider | undefined, rows: Rows, request: VendorRequest
  ): Promise<CollectedAnswers> {
    const reply = provider && await this.#ask(provider, rows, request)
    const answers = typeof reply === 'object' ? reply : waitForVendor(rows, request)
    return { ...answers, failed: new Map() }
  }

  async #ask (
    provider: ResilientProvider, rows: Rows, request: VendorRequest
  ): Promise<Answers | ProviderFailure> {
    const attributes = { provider: provider.id, rows: rows.length }
    return await inSpan({ name: 'provider ask', kind: SpanKind.CLIENT, attributes }, async span => {
      const reply = await this.#askMeasured(provider, rows, request)
      if (span !== undefined && typeof reply === 'string') failSpan(span, reply)
      return reply
    })
  }

  /**
   * The answers as the service may sell them, or the failure of the provider; answers to unknown
   * rows are ignored.
   */
  async #askMeasured (
    { id, check, collect }: ResilientProvider, rows: Rows, request: VendorRequest
  ): Promise<Answers | ProviderFailure> {
    const { service, options = [], submission } = request
    const startedMs = performance.now()
    const requested = new Set(rows.map(({ row }) => row))
    const count = (outcome: string, more: number) =>
      this.#metrics?.count('provider_checks_total', { service, provider: id, outcome }, more)
    try {
      const answers: Answers = { answers: new Map(), retry: new Map() }
      const replies = await (submission === undefined ? check : collect)(rows, request)
      for (const { row, verdict, retry } of replies) {
        if (!requested.has(row)) continue
        const sold = requireOptions(requirePurpose(service, verdict), options)
        // A provider that does not say what it checked is a vendor.
        answers.answers.set(row, sold.evidence === undefined
          ? { ...sold, evidence: BY_VENDOR[sold.status] }
          : sold)
        if (retry === undefined) answers.retry.delete(row)
        else answers.retry.set(row, retry)
      }
      const outcomes = Map.groupBy(answers.answers, ([row, { status }]) =>
        answers.retry.has(row) ? 'retry' : status)
      for (const [outcome, some] of outcomes) count(outcome, some.length)
      return answers
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

/** Results of different rows as one. */
function joinResults (results: readonly CollectedAnswers[]): CollectedAnswers {
  const [only, ...more] = results
  if (only !== undefined && more.length === 0) return only
  return {
    answers: new Map(results.flatMap(({ answers }) => [...answers])),
    retry: new Map(results.flatMap(({ retry }) => [...retry])),
    failed: new Map(results.flatMap(({ failed }) => [...failed])),
  }
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
function isUnknown ({ answers, retry, failed }: CollectedAnswers, row: number, isLast: boolean) {
  const verdict = answers.get(row)
  if (verdict === undefined) return failed.get(row) !== false || isLast
  return verdict.status === 'unknown' && (!retry.has(row) || isLast)
}

/** The second result replaces the first one where it knows more; what both found is kept. */
function mergeOpinions (
  first: CollectedAnswers, second: CollectedAnswers, service: ServiceSlug
): CollectedAnswers {
  const answers = new Map(first.answers)
  const retry = new Map(first.retry)
  const failed = new Map(first.failed)
  for (const [row, verdict] of second.answers) {
    const before = answers.get(row)
    const isKnown = verdict.status !== 'unknown'
    const terms = second.retry.get(row)
    answers.set(row, before === undefined ? verdict : mergeVerdicts(before, verdict, service))
    if (before !== undefined && !isKnown && terms === undefined) continue
    if (terms === undefined) retry.delete(row)
    else retry.set(row, terms)
    failed.delete(row)
  }
  return { answers, retry, failed }
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

function toResult ({ answers, retry, failed }: CollectedAnswers, isLast: boolean): CheckResult {
  const down = [...failed].filter(([, rejected]) => !rejected).map(([row]) => row)
  const open = new Map(down.map((row) => [row, NO_PROVIDER]))
  for (const [row, time] of isLast ? [] : retry) {
    const verdict = answers.get(row)
    const terms = time === true ? { afterMs: 0, forHost: false } : { ...time, forHost: true }
    // A row may have a verdict that a further answer would confirm: it has not waited for a reason.
    open.set(row, verdict === undefined || verdict.status === 'unknown'
      ? { reason: verdict?.reason ?? NO_PROVIDER.reason, ...terms }
      : { reason: 'timeout', ...terms, verdict })
  }
  if (open.size === 0) return { verdicts: answers, open }
  return { verdicts: new Map([...answers].filter(([row]) => !open.has(row))), open }
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

type Answers = {
  readonly answers: Map<number, ProviderVerdict>
  readonly retry: Map<number, true | RetryTime>
}

/**
 * Verdicts by row. Those of the rows in `retry` count only if the rows cannot be checked again.
 * `failed` has the rows that no provider could answer, with whether all of them rejected the input.
 * A row in neither was left out of an answer.
 */
type CollectedAnswers = {
  readonly answers: ReadonlyMap<number, ProviderVerdict>
  readonly retry: ReadonlyMap<number, true | RetryTime>
  readonly failed: ReadonlyMap<number, boolean>
}

/** Rows that a vendor may have wait for it: another check would buy them twice. */
function waitForVendor (rows: Rows, { submissions }: CheckRequest): Answers {
  const submitted = rows.filter(({ row }) => submissions?.of(row) !== undefined)
  return {
    answers: new Map(submitted.map(({ row }) => [row, NOT_YET])),
    retry: new Map(submitted.map(({ row }) => [row, true])),
  }
}

function addAll (collected: Answers, more: Answers): void {
  for (const [row, verdict] of more.answers) collected.answers.set(row, verdict)
  for (const [row, time] of more.retry) collected.retry.set(row, time)
}

const BY_VENDOR: Readonly<Record<RowStatus, Evidence>> = {
  valid: packChecks({ vendor: 'passed' }),
  invalid: packChecks({ vendor: 'failed' }),
  risky: packChecks({ vendor: 'caution' }),
  unknown: packChecks({ vendor: 'inconclusive' }),
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
