import type { Metrics } from '../lib/metrics.ts'
import type { ProviderLists, ProviderName } from '../records/provider-names.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import { askInTurn, type Asked, type Guarded } from './ask.ts'
import { withPolicies, type PolicyLimits } from './policy.ts'
import type { Provider, ProviderRow, ProviderVerdict } from './provider.ts'
import { createEmailDomainProvider } from './providers/email-domain.ts'
import { createNumberingPlanProvider } from './providers/numbering-plan.ts'
import { loadRangeData } from './providers/range-data.ts'
import { createSandboxProvider } from './providers/sandbox.ts'

/** How each provider that there is gets made. */
export type Factories = Readonly<Partial<Record<ProviderName, () => Provider>>>

/** The providers that need no configuration; what data one needs is loaded only when it is used. */
export const FACTORIES = {
  'numbering-plan': () => createNumberingPlanProvider(loadRangeData()),
  'email-domain': () => createEmailDomainProvider(),
  sandbox: () => createSandboxProvider(),
} satisfies Factories

export type CheckRequest = {
  readonly service: ServiceSlug
  readonly mode: 'live' | 'test'
  readonly signal: AbortSignal
  /** These rows will not be asked about again, so answers to wait for are given as they are. */
  readonly last?: boolean
}

/**
 * `answered`: verdicts by row; a row that is missing got no answer, but for those of `open`, which
 * are to be asked about again later. `rejected`: every provider says that it can't take such rows.
 * `down`: there is nothing for any row yet.
 */
export type Checked =
  | {
    readonly kind: 'answered'
    readonly verdicts: ReadonlyMap<number, ProviderVerdict>
    readonly open?: ReadonlySet<number>
  }
  | { readonly kind: 'rejected' }
  | { readonly kind: 'down' }

export type Checker = {
  (rows: readonly ProviderRow[], request: CheckRequest): Promise<Checked>
  /** Whether checks of such rows cost nothing and wait for nobody. */
  readonly asksNobody?: (request: Pick<CheckRequest, 'service' | 'mode'>) => boolean
}

export type ProvidersOptions = {
  readonly lists: ProviderLists
  /** Asked in the same way for rows of live keys that the first lists leave `unknown`. */
  readonly secondLists?: ProviderLists
  readonly limits: PolicyLimits
  readonly metrics?: Pick<Metrics, 'count' | 'observe'> & Partial<Pick<Metrics, 'watch'>>
  readonly factories?: Factories
}

/**
 * The live checks of every service, each provider made once and behind its own policies. Rows of
 * test keys always go to the sandbox and never leave the process. A second opinion replaces only an
 * `unknown`; a second list that can't be had changes nothing. Throws RangeError when a list names a
 * provider that is not described or does not serve the service.
 */
export function createChecker (options: ProvidersOptions): Checker {
  const guarded = guardedByName(options)
  const first = guardedLists('PROVIDERS', options.lists, guarded)
  const second = guardedLists('SECOND_OPINIONS', options.secondLists ?? {}, guarded)
  const check: Checker = async (rows, { service, mode, signal, last = false }) => {
    const ask = async (list: readonly Guarded[], asked: readonly ProviderRow[]) =>
      await askInTurn(list, asked, { service, signal, metrics: options.metrics })
    if (mode === 'test') {
      return checkedOf(rows, await ask([guarded('PROVIDERS', 'sandbox', service)], rows), last)
    }
    const asked = await ask(first.get(service) ?? [], rows)
    const others = second.get(service) ?? []
    const unsure = others.length === 0 ? [] : rows.filter(({ row }) => isUnsure(asked, row, last))
    if (unsure.length === 0) return checkedOf(rows, asked, last)
    return checkedOf(rows, merged(asked, await ask(others, unsure)), last)
  }
  const asksNobody: Checker['asksNobody'] = ({ service, mode }) => {
    const asked = [first, second].flatMap((lists) => lists.get(service) ?? [])
    return mode === 'live' && asked.length > 0 && asked.every((one) => one.asksNobody === true)
  }
  return Object.assign(check, { asksNobody })
}

const FAILURES = ['timeout', 'rate_limited', 'unavailable', 'auth', 'bad_response']

type ByName = (key: string, name: ProviderName, service: ServiceSlug) => Guarded

function guardedByName ({ limits, metrics, factories = FACTORIES }: ProvidersOptions): ByName {
  const made = new Map<ProviderName, Guarded>()
  const make = (key: string, name: ProviderName) => {
    const provider = factories[name]?.()
    if (provider === undefined) throw new RangeError(`${key}: ${name} is not described`)
    const breaks = name !== 'sandbox'
    const id = String(provider.id)
    let isOpen = false
    const onCircuit = (now: boolean) => { isOpen = now }
    const check = withPolicies(provider, { ...limits, ...provider.limits, breaks, onCircuit })
    metrics?.watch?.('provider_circuit_open', { provider: id }, () => Number(isOpen))
    // A series that first shows with a failure would hide it from rates.
    for (const service of provider.services) {
      for (const outcome of FAILURES) {
        metrics?.count('provider_checks_total', { service, provider: id, outcome }, 0)
      }
    }
    const entry = { ...provider, id, check }
    made.set(name, entry)
    return entry
  }
  return (key, name, service) => {
    const entry = made.get(name) ?? make(key, name)
    if (entry.services.includes(service)) return entry
    throw new RangeError(`${key}: ${name} does not serve ${service}`)
  }
}

function guardedLists (key: string, lists: ProviderLists, guarded: ByName) {
  return new Map(SERVICE_SLUGS.map((service) =>
    [service, (lists[service] ?? []).map((name) => guarded(key, name, service))]))
}

/** A row that waits is not unsure yet, nor is one whose providers may be back later. */
function isUnsure ({ answers, again, failed }: Asked, row: number, last: boolean): boolean {
  const verdict = answers.get(row)
  if (verdict === undefined) return failed.get(row) !== false || last
  return verdict.status === 'unknown' && (!again.has(row) || last)
}

/** What only the first one told stays, where the second one is silent. */
function merged (first: Asked, second: Asked): Asked {
  const answers = new Map(first.answers)
  const again = new Set(first.again)
  const failed = new Map(first.failed)
  for (const [row, verdict] of second.answers) {
    const before = answers.get(row)
    const known = verdict.status !== 'unknown'
    const waits = second.again.has(row)
    if (before !== undefined && !known && !waits) continue
    const fields = { ...before?.fields, ...verdict.fields }
    answers.set(row, { ...known || before === undefined ? verdict : before, fields })
    if (waits) again.add(row)
    else again.delete(row)
    failed.delete(row)
  }
  return { answers, again, failed }
}

function checkedOf (rows: readonly ProviderRow[], asked: Asked, last: boolean): Checked {
  const { answers, again, failed } = asked
  const down = [...failed].filter(([, rejected]) => !rejected).map(([row]) => row)
  if (failed.size === rows.length && down.length === 0) return { kind: 'rejected' }
  const open = new Set(last ? down : [...down, ...again])
  if (open.size === 0) return { kind: 'answered', verdicts: answers }
  if (open.size === rows.length) return { kind: 'down' }
  const verdicts = new Map([...answers].filter(([row]) => !open.has(row)))
  return { kind: 'answered', verdicts, open }
}
