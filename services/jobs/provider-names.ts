import Type from 'typebox'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'

/** Providers that need no description; others are `http:<id>`, described by configuration. */
export const BUILT_IN_PROVIDERS = [
  'numbering-plan', 'email-domain', 'smtp-probe', 'sandbox',
] as const

export type BuiltInProvider = typeof BUILT_IN_PROVIDERS[number]

export type ProviderName = BuiltInProvider | `http:${number}`

/** Which providers serve a service, the first one first; the others only when it fails. */
export type ProviderLists = Readonly<Partial<Record<ServiceSlug, readonly ProviderName[]>>>

export const DEFAULT_PROVIDERS: ProviderLists = {
  'phone-validation': ['numbering-plan'],
  'carrier-single': ['numbering-plan'],
  'carrier-lookup': ['numbering-plan'],
  'email-validation': ['email-domain'],
}

const providerName = Type.Refine(
  Type.Unsafe<ProviderName>(Type.String()), isProviderName,
  () => `must be one of ${BUILT_IN_PROVIDERS.join(', ')}, http:<id>`)

const providerList = Type.Optional(Type.Array(providerName))

/** The form of a list of providers for each service. */
export const providerLists = Object.fromEntries(SERVICE_SLUGS.map((slug) =>
  [slug, providerList])) as Record<ServiceSlug, typeof providerList>

/**
 * The key `PROVIDERS`, read alike by the stage that asks them and by the interface, which refuses
 * live jobs of a service that has none.
 */
export const providersConfig = {
  PROVIDERS: Type.Object(providerLists, {
    default: DEFAULT_PROVIDERS,
    additionalProperties: false,
    description: 'Providers of each service, JSON, the first one first; the others when it ' +
      'fails. Live keys may use services that have one.',
    examples: [{ 'phone-validation': ['numbering-plan'], whatsapp: ['http:1'] }],
  }),
}

function isProviderName (name: string): boolean {
  const builtIn: readonly string[] = BUILT_IN_PROVIDERS
  return builtIn.includes(name) || /^http:[1-9]\d{0,5}$/.test(name)
}
