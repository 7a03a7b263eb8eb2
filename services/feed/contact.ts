import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { FeedSealError, openContact } from '../../schemas/feeds/seal.ts'
import type { FeedContact } from '../../schemas/types.ts'
import { MAX_REFERENCE_CHARACTERS } from '../records/partner-results.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'

/** A contact that can become a row of a job. */
export type Contact = {
  readonly offset: number
  readonly reference: string
  readonly input: string
}

/** What the contacts of one job have in common. */
export type Terms = {
  readonly service: ServiceSlug
  /** ISO 3166 fallback country in capitals, empty when there is none. */
  readonly country: string
  readonly forceFresh: boolean
}

/** Why a contact gets a result at once and never becomes a row. */
export type ContactFault =
  | 'unreadable_contact' | 'invalid_reference' | 'unknown_service' | 'service_not_configured'
  | 'invalid_country_code' | 'too_long_input'

/** `marker`: no contact, it only ends what was collected. */
export type ReadContact =
  | {
    readonly kind: 'contact'
    readonly contact: Contact
    readonly terms: Terms
    readonly ends: boolean
  }
  | { readonly kind: 'faulty', readonly fault: ContactFault, readonly ends: boolean }
  | { readonly kind: 'marker' }

export type ReadOptions = {
  readonly partner: string
  /** The partner's key. */
  readonly key: Buffer
  readonly offset: number
  /** Whether contacts of the partner may ask for a service. */
  readonly isConfigured: (service: ServiceSlug) => boolean
}

/** As a longer one refuses a request of the REST interface. */
const MAX_INPUT_CHARACTERS = 1_024

const SLUGS: ReadonlySet<string> = new Set(SERVICE_SLUGS)
const COUNTRIES: ReadonlySet<string> = new Set(COUNTRY_CODES)

/** What a partner's message is; nothing in it says whose it is or what it costs. */
export function readContact (value: FeedContact, options: ReadOptions): ReadContact {
  const { reference, service, countryCode, forceFresh, sealed, end: ends } = value
  if (sealed === null) return ends ? { kind: 'marker' } : faulty('unreadable_contact', ends)
  const country = countryCode.toUpperCase()
  const fault = faultOf(value, country, options)
  if (fault !== undefined) return faulty(fault, ends)
  const place = { partner: options.partner, reference, service, countryCode, forceFresh }
  const input = opened(options.key, place, sealed)
  if (input === undefined) return faulty('unreadable_contact', ends)
  if (input.length > MAX_INPUT_CHARACTERS) return faulty('too_long_input', ends)
  const terms = { service: service as ServiceSlug, country, forceFresh }
  return { kind: 'contact', contact: { offset: options.offset, reference, input }, terms, ends }
}

/** The name of the cursor that takes contacts of these terms. */
export function cursorOf ({ service, country, forceFresh }: Terms): string {
  return `${service}|${country}|${forceFresh ? 'fresh' : ''}`
}

function faultOf (
  { reference, service }: FeedContact, country: string, { isConfigured }: ReadOptions
): ContactFault | undefined {
  const fits = reference !== '' && reference.length <= MAX_REFERENCE_CHARACTERS
  if (!fits) return 'invalid_reference'
  if (!SLUGS.has(service)) return 'unknown_service'
  if (!isConfigured(service as ServiceSlug)) return 'service_not_configured'
  return country === '' || COUNTRIES.has(country) ? undefined : 'invalid_country_code'
}

function faulty (fault: ContactFault, ends: boolean): ReadContact {
  return { kind: 'faulty', fault, ends }
}

function opened (
  key: Buffer, place: Parameters<typeof openContact>[1], sealed: Buffer
): string | undefined {
  try {
    return openContact(key, place, sealed)
  } catch (error) {
    if (error instanceof FeedSealError) return undefined
    throw error
  }
}
