import type { Metrics } from '../lib/metrics.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import { withPolicies, type Check, type PolicyLimits } from './policy.ts'
import {
  ProviderError, type Provider, type ProviderFailure, type ProviderRow, type ProviderVerdict,
} from './provider.ts'
import { createEmailDomainProvider } from './providers/email-domain.ts'
import { createNumberingPlanProvider } from './providers/numbering-plan.ts'
import { loadRangeData } from './providers/range-data.ts'
import { createSandboxProvider } from './providers/sandbox.ts'

/** The names that configuration may use. */
export const PROVIDER_NAMES = ['numbering-plan', 'email-domain', 'sandbox'] as const

export type ProviderName = typeof PROVIDER_NAMES[number]

/** Which providers serve a service, the first one first; the others only when it fails. */
export type ProviderLists = Readonly<Partial<Record<ServiceSlug, readonly ProviderName[]>>>

export const DEFAULT_PROVIDERS: ProviderLists = {
  'phone-validation': ['numbering-plan'],
  'carrier-single': ['numbering-plan'],
  'carrier-lookup': ['numbering-plan'],
  'email-validation': ['email-domain'],
}

/** How each provider is made; the data a provider needs is loaded only when it is used. */
export const FACTORIES: Readonly<Record<ProviderName, () => Provider>> = {
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
 * `answered`: verdicts by row; a row that is missing got no answer. `rejected`: every provider says
 * that it can't take such rows. `down`: no provider can be had now.
 */
export type Checked =
  | { readonly kind: 'answered', readonly verdicts: ReadonlyMap<number, ProviderVerdict> }
  | { readonly kind: 'rejected' }
  | { readonly kind: 'down' }

export type Checker = (rows: readonly ProviderRow[], request: CheckRequest) => Promise<Checked>

export type ProvidersOptions = {
  readonly lists: ProviderLists
  readonly limits: PolicyLimits
  readonly metrics?: Pick<Metrics, 'count' | 'observe'>
  readonly factories?: typeof FACTORIES
}

type Guarded = { readonly id: string, readonly check: Check }

/**
 * The live checks of every service, each provider made once and behind its own policies. Rows of
 * test keys always go to the sandbox and never leave the process. Throws RangeError when a list
 * names a provider that does not serve the service.
 */
export function createChecker (options: ProvidersOptions): Checker {
  const guarded = guardedByName(options)
  const lists = new Map(SERVICE_SLUGS.map((service) =>
    [service, (options.lists[service] ?? []).map((name) => guarded(name, service))]))
  return async (rows, request) => {
    const { service, mode } = request
    const list = mode === 'test' ? [guarded('sandbox', service)] : lists.get(service) ?? []
    const failures: ProviderFailure[] = []
    for (const provider of list) {
      const answer = await ask(provider, rows, { ...request, metrics: options.metrics })
      if (typeof answer !== 'string') return { kind: 'answered', verdicts: answer }
      failures.push(answer)
    }
    const rejected = failures.length > 0 && failures.every((it) => it === 'rejected_input')
    return { kind: rejected ? 'rejected' : 'down' }
  }
}

function guardedByName ({ limits, factories = FACTORIES }: ProvidersOptions) {
  const made = new Map<ProviderName, Guarded & { readonly services: readonly ServiceSlug[] }>()
  const make = (name: ProviderName) => {
    const provider = factories[name]()
    const check = withPolicies(provider, { ...limits, breaks: name !== 'sandbox' })
    const entry = { id: String(provider.id), services: provider.services, check }
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
    for (const { status } of verdicts.values()) count(status)
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
