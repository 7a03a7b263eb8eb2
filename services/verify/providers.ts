import type { Metrics } from '../lib/metrics.ts'
import type { BuiltInProvider, ProviderLists, ProviderName } from '../records/provider-names.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import { withPolicies, type Check, type PolicyLimits } from './policy.ts'
import {
  ProviderError, type Provider, type ProviderFailure, type ProviderRow, type ProviderVerdict,
} from './provider.ts'
import { createEmailDomainProvider } from './providers/email-domain.ts'
import { createNumberingPlanProvider } from './providers/numbering-plan.ts'
import { loadRangeData } from './providers/range-data.ts'
import { createSandboxProvider } from './providers/sandbox.ts'

/** How each provider that there is gets made. */
export type Factories = Readonly<Partial<Record<ProviderName, () => Provider>>>

/** The providers that need no configuration; what data one needs is loaded only when it is used. */
export const FACTORIES: Factories & Readonly<Record<BuiltInProvider, () => Provider>> = {
  'numbering-plan': () => createNumberingPlanProvider(loadRangeData()),
  'email-domain': () => createEmailDomainProvider(),
  sandbox: () => createSandboxProvider(),
}

export type CheckRequest = {
  readonly service: ServiceSlug
  readonly mode: 'live' | 'test'
  readonly signal: AbortSignal
}

/**
 * `answered`: verdicts by row; a row that is missing got no answer, but for those of `open`, whose
 * providers can't be had now. `rejected`: every provider says that it can't take such rows. `down`:
 * no provider can be had now for any row.
 */
export type Checked =
  | {
    readonly kind: 'answered'
    readonly verdicts: ReadonlyMap<number, ProviderVerdict>
    readonly open?: ReadonlySet<number>
  }
  | { readonly kind: 'rejected' }
  | { readonly kind: 'down' }

export type Checker = (rows: readonly ProviderRow[], request: CheckRequest) => Promise<Checked>

export type ProvidersOptions = {
  readonly lists: ProviderLists
  readonly limits: PolicyLimits
  readonly metrics?: Pick<Metrics, 'count' | 'observe'>
  readonly factories?: Factories
}

type Guarded = Pick<Provider, 'services' | 'maxRows'> & {
  readonly id: string
  readonly check: Check
}

/**
 * The live checks of every service, each provider made once and behind its own policies. A provider
 * gets no more rows a call than it takes; rows of calls that failed go to the next of the list, and
 * no answer that was had is asked for again. Rows of test keys always go to the sandbox and never
 * leave the process. Throws RangeError when a list names a provider that is not described or does
 * not serve the service.
 */
export function createChecker (options: ProvidersOptions): Checker {
  const guarded = guardedByName(options)
  const lists = new Map(SERVICE_SLUGS.map((service) =>
    [service, (options.lists[service] ?? []).map((name) => guarded(name, service))]))
  return async (rows, request) => {
    const { service, mode } = request
    const list = mode === 'test' ? [guarded('sandbox', service)] : lists.get(service) ?? []
    return await askInTurn(list, rows, { ...request, metrics: options.metrics })
  }
}

function guardedByName ({ limits, factories = FACTORIES }: ProvidersOptions) {
  const made = new Map<ProviderName, Guarded>()
  const make = (name: ProviderName) => {
    const provider = factories[name]?.()
    if (provider === undefined) throw new RangeError(`PROVIDERS: ${name} is not described`)
    const breaks = name !== 'sandbox'
    const check = withPolicies(provider, { ...limits, ...provider.limits, breaks })
    const entry = { ...provider, id: String(provider.id), check }
    made.set(name, entry)
    return entry
  }
  return (name: ProviderName, service: ServiceSlug): Guarded => {
    const entry = made.get(name) ?? make(name)
    if (entry.services.includes(service)) return entry
    throw new RangeError(`PROVIDERS: ${name} does not serve ${service}`)
  }
}

type AskOptions = CheckRequest & { readonly metrics: ProvidersOptions['metrics'] }

async function askInTurn (
  list: readonly Guarded[], rows: readonly ProviderRow[], options: AskOptions
): Promise<Checked> {
  const verdicts = new Map<number, ProviderVerdict>()
  /** Rows without an answer so far; true while every provider rejected them. */
  let open = new Map(rows.map((row) => [row, list.length > 0]))
  for (const provider of list) {
    const calls = slicesOf([...open.keys()], provider.maxRows)
    const answers = await Promise.all(calls.map((slice) => ask(provider, slice, options)))
    const failed = answers.flatMap((answer, index) => typeof answer === 'string'
      ? (calls[index] ?? []).map((row) =>
          [row, answer === 'rejected_input' && open.get(row) === true] as const)
      : [])
    for (const answer of answers) {
      if (typeof answer !== 'string') answer.forEach((it, row) => verdicts.set(row, it))
    }
    open = new Map(failed)
    if (open.size === 0) break
  }
  const down = [...open].filter(([, rejected]) => !rejected).map(([{ row }]) => row)
  if (open.size === rows.length) return { kind: down.length === 0 ? 'rejected' : 'down' }
  return { kind: 'answered', verdicts, ...(down.length === 0 ? {} : { open: new Set(down) }) }
}

function slicesOf (rows: readonly ProviderRow[], most = Infinity): readonly ProviderRow[][] {
  if (rows.length <= most) return [[...rows]]
  return Array.from({ length: Math.ceil(rows.length / most) }, (_, index) =>
    rows.slice(index * most, (index + 1) * most))
}

/** The verdicts by row, or how the provider failed; answers for rows nobody asked are dropped. */
async function ask (
  { id, check }: Guarded, rows: readonly ProviderRow[], options: AskOptions
): Promise<ReadonlyMap<number, ProviderVerdict> | ProviderFailure> {
  const { service, signal, metrics } = options
  const startedMs = performance.now()
  const asked = new Set(rows.map(({ row }) => row))
  const count = (outcome: string, more = 1) =>
    metrics?.count('provider_checks_total', { service, provider: id, outcome }, more)
  try {
    const answers = await check(rows, { service, signal })
    const verdicts = new Map(answers
      .filter(({ row }) => asked.has(row)).map(({ row, verdict }) => [row, verdict]))
    const byStatus = new Map<string, number>()
    for (const { status } of verdicts.values()) {
      byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
    }
    for (const [status, more] of byStatus) count(status, more)
    return verdicts
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    count(error.failure, rows.length)
    return error.failure
  } finally {
    const seconds = (performance.now() - startedMs) / 1_000
    metrics?.observe('provider_call_seconds', { service, provider: id }, seconds)
  }
}
