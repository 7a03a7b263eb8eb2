import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { FeedSealError, openContact } from '../../schemas/feeds/seal.ts'
import type { FeedContact } from '../../schemas/types.ts'
import { MAX_REFERENCE_CHARACTERS } from '../records/partner-results.ts'
import { SERVICE_SLUGS, topology, type ServiceSlug } from '../topology.ts'
import type { Stamp } from './replays.ts'

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
  | 'unreadable_contact' | 'invalid_sender' | 'too_many_senders' | 'invalid_sent_at'
  | 'invalid_reference' | 'unknown_service' | 'service_not_configured' | 'invalid_country_code'
  | 'too_long_input'

/**
 * `marker`: no contact, it only ends what was collected. `misplaced`: a copy of a contact that was
 * sent to another partition. A faulty contact without a stamp is not authentic, or can't be marked.
 */
export type ReadContact =
  | {
    readonly kind: 'contact'
    readonly contact: Contact
    readonly terms: Terms
    readonly ends: boolean
    readonly stamp: Stamp
  }
  | {
    readonly kind: 'faulty'
    readonly fault: ContactFault
    readonly ends: boolean
    readonly stamp?: Stamp
  }
  | { readonly kind: 'marker' }
  | { readonly kind: 'misplaced' }

export type ReadOptions = {
  readonly partner: string
  /** The partner's keys that have not expired. */
  readonly keys: readonly Buffer[]
  readonly partition: number
  readonly offset: number
  /** Milliseconds since 1970. */
  readonly nowMs: number
  /** Whether contacts of the partner may ask for a service. */
  readonly isConfigured: (service: ServiceSlug) => boolean
}

/** As a longer one refuses a request of the REST interface. */
const MAX_INPUT_CHARACTERS = 1_024

const SLUGS: ReadonlySet<string> = new Set(SERVICE_SLUGS)
const COUNTRIES: ReadonlySet<string> = new Set(COUNTRY_CODES)

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** As long as the topic keeps it: the marks can be rebuilt of all contacts that are accepted. */
const MAX_AGE_MS = topology.topics['feeds.submitted'].keepHours * 3_600_000
const MAX_AHEAD_MS = 86_400_000

/**
 * What a partner's message is; nothing in it says whose it is or what it costs. Opened before
 * anything else of it is believed.
 */
export function readContact (value: FeedContact, options: ReadOptions): ReadContact {
  const { end: ends, sender, sequence, sentAt } = value
  if (value.sealed === null && ends) return { kind: 'marker' }
  const input = opened(value, options)
  if (input === undefined) return { kind: 'faulty', fault: 'unreadable_contact', ends }
  if (value.partition !== options.partition) return { kind: 'misplaced' }
  if (!UUID.test(sender)) return { kind: 'faulty', fault: 'invalid_sender', ends }
  const stamp = { sender, sequence, sentAt }
  const fault = faultOf(value, input, options)
  if (fault !== undefined) return { kind: 'faulty', fault, ends, stamp }
  const { reference } = value
  const contact = { offset: options.offset, reference, input }
  return { kind: 'contact', contact, terms: termsOf(value) as Terms, ends, stamp }
}

/** The name of the cursor that takes contacts of these terms. */
export function cursorOf ({ service, country, forceFresh }: ClaimedTerms): string {
  return `${service}|${country}|${forceFresh ? 'fresh' : ''}`
}

type ClaimedTerms = Omit<Terms, 'service'> & { readonly service: string }

/** The terms that a contact claims, whether or not they are known, or it is authentic. */
export function termsOf ({ service, countryCode, forceFresh }: FeedContact): ClaimedTerms {
  return { service, country: countryCode.toUpperCase(), forceFresh }
}

function faultOf (
  value: FeedContact, input: string, { isConfigured, nowMs }: ReadOptions
): ContactFault | undefined {
  const { reference, sentAt } = value
  const { service, country } = termsOf(value)
  const isTimely = sentAt >= nowMs - MAX_AGE_MS && sentAt <= nowMs + MAX_AHEAD_MS
  if (!isTimely) return 'invalid_sent_at'
  const fits = reference !== '' && reference.length <= MAX_REFERENCE_CHARACTERS
  if (!fits) return 'invalid_reference'
  if (!SLUGS.has(service)) return 'unknown_service'
  if (!isConfigured(service as ServiceSlug)) return 'service_not_configured'
  if (country !== '' && !COUNTRIES.has(country)) return 'invalid_country_code'
  return input.length > MAX_INPUT_CHARACTERS ? 'too_long_input' : undefined
}

function opened (
  value: FeedContact, { keys, partner }: Pick<ReadOptions, 'keys' | 'partner'>
): string | undefined {
  if (value.sealed === null) return undefined
  try {
    return openContact(keys, { ...value, partner }, value.sealed)
  } catch (error) {
    if (error instanceof FeedSealError) return undefined
    throw error
  }
}
