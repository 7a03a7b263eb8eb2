import Type, { type Static } from 'typebox'
import { CHECKS, LIMITATIONS } from '../../schemas/api/services.ts'
import { serverAddress } from '../platform/server-address.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import {
  providerLists, providersConfig, type BuiltInProvider, type ProviderName,
} from './provider-names.ts'

export type CheckName = keyof typeof CHECKS
export type Limitation = keyof typeof LIMITATIONS

const ALL_CHECKS = Object.keys(CHECKS) as CheckName[]

/** The settings that decide which checks run; `verify` and `ingest` read the same values. */
export const checksConfig = {
  ...providersConfig,
  SECOND_OPINIONS: Type.Object(providerLists, {
    default: {},
    additionalProperties: false,
    description: 'Providers of each service, JSON, for rows of live keys that PROVIDERS leave ' +
      'unknown.',
    examples: [{ 'email-validation': ['smtp-probe'] }],
  }),
  DNS_SERVERS: Type.Optional(Type.Array(serverAddress, {
    description: 'Resolvers for mail domains, IP addresses with or without port; those of the ' +
      'system if missing. Domains are not checked if it is set to an empty value.',
    examples: ['9.9.9.9'],
  })),
}

type ChecksConfig = Static<Type.TObject<typeof checksConfig>>

/** The checks of contacts of live keys, by service; services without a provider are missing. */
export type Checks = ReadonlyMap<ServiceSlug, readonly CheckName[]>

/** The checks that follow from the configuration. */
export function checksOf (config: ChecksConfig): Checks {
  const withDns = config.DNS_SERVERS?.length !== 0
  return new Map(SERVICE_SLUGS.flatMap((service) => {
    const first = config.PROVIDERS[service] ?? []
    if (first.length === 0) return []
    const providers = [...first, ...config.SECOND_OPINIONS[service] ?? []]
    const active = ['syntax', ...providers.flatMap((name) => checksBy(name, withDns))]
    return [[service, ALL_CHECKS.filter((check) => active.includes(check))]]
  }))
}

const CHECKS_BY: Readonly<Record<BuiltInProvider, readonly CheckName[]>> = {
  'numbering-plan': ['numbering_plan', 'carrier_range'],
  'email-domain': ['lists', 'domain'],
  'smtp-probe': ['lists', 'domain', 'mailbox'],
  sandbox: [],
}

function checksBy (provider: ProviderName, withDns: boolean): readonly CheckName[] {
  const checks = CHECKS_BY[provider as BuiltInProvider] ?? ['vendor']
  return checks.filter((check) => withDns || check !== 'domain')
}

/** What the checks of a service cannot tell; empty if a vendor is used. */
export function limitationsOf (
  service: ServiceSlug, checks: readonly CheckName[]
): readonly Limitation[] {
  const has = (check: CheckName) => checks.includes(check)
  if (has('vendor')) return []
  if (service === 'phone-validation') return has('numbering_plan') ? ['range_only'] : []
  if (has('carrier_range')) return ['carrier_of_range']
  if (!has('lists') || has('mailbox')) return []
  return has('domain')
    ? ['mailbox_not_checked']
    : ['domain_not_checked', 'mailbox_not_checked']
}
