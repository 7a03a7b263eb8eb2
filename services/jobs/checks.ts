import Type, { type Static } from 'typebox'
import { readdirSync, readFileSync } from 'node:fs'
import { CHECKS, LIMITATIONS, type CheckName } from '../../schemas/api/services.ts'
import { serverAddress } from '../runtime/platform/networks.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'

/** Built-in providers; the others are vendors, `http:<id>` of HTTP_PROVIDERS or `http:<preset>`. */
const BUILT_IN_PROVIDERS = [
  'numbering-plan', 'email-domain', 'smtp-probe', 'sandbox',
] as const

export type BuiltInProvider = typeof BUILT_IN_PROVIDERS[number]

export type ProviderName = BuiltInProvider | `http:${string}`

/** The providers of each service: the first is used, the others when it fails. */
export type ProviderLists = Readonly<Partial<Record<ServiceSlug, readonly ProviderName[]>>>

const DEFAULT_PROVIDERS: ProviderLists = {
  'phone-validation': ['numbering-plan'],
  'carrier-single': ['numbering-plan'],
  'carrier-lookup': ['numbering-plan'],
  'email-validation': ['email-domain'],
}

const providerName = Type.Refine(
  Type.Unsafe<ProviderName>(Type.String()),
  name => BUILT_IN_PROVIDERS.some(builtIn => builtIn === name) || VENDOR_PRESETS.has(name) ||
    /^http:[1-9]\d{0,5}$/.test(name),
  () => 'must be one of ' +
    [...BUILT_IN_PROVIDERS, 'http:<id>', ...VENDOR_PRESETS.keys()].join(', '))

const providerList = Type.Optional(Type.Array(providerName))

/** Schema of the provider lists of all services. */
const providerLists = Object.fromEntries(SERVICE_SLUGS.map((slug) =>
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
    needs: vendorKeysIn,
  }),
}

/** The keys of the presets that a value of PROVIDERS or SECOND_OPINIONS names. */
function vendorKeysIn (lists: string): readonly string[] {
  return [...VENDOR_PRESETS].filter(([name]) => lists.includes(`"${name}"`))
    .map(([, { key }]) => key.setting)
}

type Limitation = keyof typeof LIMITATIONS

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
    needs: vendorKeysIn,
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
export function listChecks (config: ChecksConfig): Checks {
  const withDns = config.DNS_SERVERS?.length !== 0
  return new Map(SERVICE_SLUGS.flatMap((service) => {
    const first = config.PROVIDERS[service] ?? []
    if (first.length === 0) return []
    const providers = [...first, ...config.SECOND_OPINIONS[service] ?? []]
    const active = ['syntax', ...providers.flatMap((name) =>
      CHECKS_BY[name as BuiltInProvider] ?? VENDOR_PRESETS.get(name)?.checks ?? ['vendor'])]
    return [[service, ALL_CHECKS.filter((check) =>
      active.includes(check) && (withDns || check !== 'domain'))]]
  }))
}

const CHECKS_BY: Readonly<Record<BuiltInProvider, readonly CheckName[]>> = {
  'numbering-plan': ['numbering_plan', 'carrier_range'],
  'email-domain': ['lists', 'domain'],
  'smtp-probe': ['lists', 'domain', 'mailbox', 'catch_all'],
  sandbox: [],
}

/** What the checks of a service cannot tell; empty if a vendor is used or nothing is checked. */
export function listLimitations (
  service: ServiceSlug, checks: readonly CheckName[]
): readonly Limitation[] {
  const has = (check: CheckName) => checks.includes(check)
  if (checks.length === 0 || has('vendor')) return []
  if (service === 'phone-validation') return has('numbering_plan') ? ['range_only'] : []
  if (has('carrier_range')) return ['carrier_of_range']
  if (service !== 'email-validation' || has('mailbox')) return []
  return has('domain')
    ? ['mailbox_not_checked']
    : ['domain_not_checked', 'mailbox_not_checked']
}

/** A vendor that deploy/providers/ describes; PROVIDERS names it `http:<name>`. */
export type VendorPreset = {
  /** Pages of the vendor that the description follows. */
  readonly docs: readonly string[]
  /** The setting with the key, what it holds, and its form if it has several parts. */
  readonly key: { readonly setting: VendorKey, readonly about: string, readonly form?: string }
  /**
   * The checks that its answer states, and `vendor` for what only the vendor knows: whether a
   * number is assigned is `numbering_plan`, its carrier of today is `vendor`.
   */
  readonly checks: readonly (keyof typeof CHECKS)[]
  /** The description with the placeholders of the key, in the form of HTTP_PROVIDERS. */
  readonly vendor: { readonly options?: Readonly<Record<string, unknown>> }
}

export type VendorKey = `VENDOR_${string}_KEY`

const FOLDER = new URL('../../deploy/providers/', import.meta.url)

/** All presets by the name in PROVIDERS, in alphabetical order. */
export const VENDOR_PRESETS: ReadonlyMap<string, VendorPreset> = new Map(
  readdirSync(FOLDER).filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -'.json'.length)).toSorted().map((name) => {
      const text = readFileSync(new URL(`${name}.json`, FOLDER), 'utf8')
      return [`http:${name}`, JSON.parse(text) as VendorPreset]
    }))

/** The settings with the keys of presets, each once. */
export const VENDOR_KEYS: readonly VendorPreset['key'][] =
  [...new Map([...VENDOR_PRESETS.values()].map(({ key }) => [key.setting, key])).values()]

/** The form of a key in words. */
export function vendorKeyForm ({ form }: VendorPreset['key']): string {
  return form ?? 'a key without spaces'
}

/** Whether the text is a key of that form. */
export function isVendorKey ({ form }: VendorPreset['key'], text: string): boolean {
  return splitParts(form, text) !== undefined
}

/**
 * The description of a preset with the key in its places.
 * @throws RangeError for a key that has another form.
 */
export function describedVendor ({ key, vendor }: VendorPreset, text: string): unknown {
  const parts = splitParts(key.form, text)
  if (parts === undefined) throw new RangeError(`${key.setting} must be ${vendorKeyForm(key)}`)
  return JSON.parse(JSON.stringify(vendor), (_, value: unknown) => typeof value === 'string'
    ? value.replace(KEY_PLACE, (_whole, name: string = '') => parts[name] ?? '')
    : value) as unknown
}

/** `{key}` for all of it, `{key.part}` for a part. */
const KEY_PLACE = /\{key(?:\.([a-z]+))?\}/g
const PART = /\{([a-z]+)\}/g

/** The parts of a key by their names in the form, and all of it by the empty name. */
function splitParts (form = '', text: string): Readonly<Record<string, string>> | undefined {
  if (!/^[^\s{}](?:[^{}\r\n]*[^\s{}])?$/.test(text)) return undefined
  if (form === '') return /\s/.test(text) ? undefined : { '': text }
  const names = Array.from(form.matchAll(PART), ([, name = '']) => name)
  const pattern = form.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(PART, '(\\S+?)')
  const match = new RegExp(`^${pattern}$`).exec(text)
  if (match === null) return undefined
  return { '': text, ...Object.fromEntries(names.map((name, at) => [name, match[at + 1] ?? ''])) }
}
