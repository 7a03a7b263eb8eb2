import Type from 'typebox'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'

/** Built-in providers; the others are `http:<id>`, which settings describe. */
export const BUILT_IN_PROVIDERS = [
  'numbering-plan', 'email-domain', 'smtp-probe', 'sandbox',
] as const

export type BuiltInProvider = typeof BUILT_IN_PROVIDERS[number]

export type ProviderName = BuiltInProvider | `http:${number}`

/** The providers of each service: the first is used, the others when it fails. */
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

/** Schema of the provider lists of all services. */
export const providerLists = Object.fromEntries(SERVICE_SLUGS.map((slug) =>
  [slug, providerList])) as Record<ServiceSlug, typeof providerList>

/**
 * The setting `PROVIDERS`: `verify` calls the providers, and `ingest` rejects live jobs of a
 * service without one. Both read the same value.
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
