import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { MAX_INPUT_CHARACTERS, truncateInput } from '../../schemas/api/create-job.ts'
import { FeedSealError, openContact } from '../../schemas/feeds/seal.ts'
import type { FeedContact } from '../../schemas/types.ts'
import {
  connectPartnerResults, MAX_REFERENCE_CHARACTERS, type ResultTarget,
} from '../jobs/results/partner-results.ts'
import { SERVICE_SLUGS, topology, type ServiceSlug } from '../topology.ts'
import type { Stamp } from './replay-guard.ts'

/** A contact that can become a row of a job. */
export type Contact = {
  readonly offset: number
  /** The offset that its result names instead: that of its first message, if it is replayed. */
  readonly answers?: number | undefined
  readonly reference: string
  readonly input: string
}

/** The options that all contacts of one job share. */
export type Terms = {
  readonly service: ServiceSlug
  /** ISO 3166 fallback country in capitals, empty if there is none. */
  readonly country: string
  readonly forceFresh: boolean
}

/** Why a contact is rejected at once and never becomes a row. */
type RejectReason =
  | 'unreadable_contact' | 'invalid_sender' | 'too_many_senders' | 'invalid_sent_at'
  | 'invalid_reference' | 'unknown_service' | 'service_not_configured' | 'invalid_country_code'
  | 'too_long_input'

/**
 * `end_marker`: not a contact, it only closes the batches. `wrong_partition`: a copy of a contact
 * that was sent to another partition. A rejected contact without a stamp is not authentic, or its
 * sender is no UUID.
 */
export type ReadContact =
  | {
    readonly kind: 'contact'
    readonly contact: Contact
    readonly terms: Terms
    readonly endsBatch: boolean
    readonly stamp: Stamp
  }
  | {
    readonly kind: 'rejected'
    readonly reason: RejectReason
    readonly endsBatch: boolean
    readonly stamp?: Stamp
  }
  | { readonly kind: 'end_marker' }
  | { readonly kind: 'wrong_partition' }

export type ContactReadOptions = {
  readonly partner: string
  /** The partner's keys that have not expired. */
  readonly keys: readonly Buffer[]
  readonly partition: number
  readonly offset: number
  /** The offset of its first message, if an operator has replayed it. */
  readonly answers?: number | undefined
  /** When it came, in ms since 1970. */
  readonly nowMs: number
  /** Whether the partner may use a service. */
  readonly isConfigured: (service: ServiceSlug) => boolean
}

const SLUGS: ReadonlySet<string> = new Set(SERVICE_SLUGS)
const COUNTRIES: ReadonlySet<string> = new Set(COUNTRY_CODES)

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** The retention of the topic, so that the log can rebuild the marks of all accepted contacts. */
const MAX_AGE_MS = topology.topics['feeds.submitted'].keepHours * 3_600_000
const MAX_AHEAD_MS = 86_400_000

/**
 * Reads a partner's message. Tenant and price never come from the message. No field counts before
 * the seal, which authenticates all fields, is opened.
 */
export function readContact (value: FeedContact, options: ContactReadOptions): ReadContact {
  const { end: endsBatch, sender, sequence, sentAt } = value
  if (value.sealed === null && endsBatch) return { kind: 'end_marker' }
  const input = openInput(value, options)
  if (input === undefined) return { kind: 'rejected', reason: 'unreadable_contact', endsBatch }
  if (value.partition !== options.partition) return { kind: 'wrong_partition' }
  if (!UUID.test(sender)) return { kind: 'rejected', reason: 'invalid_sender', endsBatch }
  const stamp = { sender, sequence, sentAt }
  const reason = findFault(value, input, options)
  if (reason !== undefined) return { kind: 'rejected', reason, endsBatch, stamp }
  const { reference } = value
  const { offset, answers } = options
  const contact = {
    offset, reference, input: truncateInput(input), ...answers !== undefined && { answers },
  }
  return { kind: 'contact', contact, terms: readTerms(value) as Terms, endsBatch, stamp }
}

/** The name of the cursor for contacts with these terms. */
export function nameCursor ({ service, country, forceFresh }: ClaimedTerms): string {
  return `${service}|${country}|${forceFresh ? 'fresh' : ''}`
}

type ClaimedTerms = Omit<Terms, 'service'> & { readonly service: string }

/** The terms in a message, which may be unknown or not authentic. */
export function readTerms ({ service, countryCode, forceFresh }: FeedContact): ClaimedTerms {
  return { service, country: countryCode.toUpperCase(), forceFresh }
}

function findFault (
  value: FeedContact, input: string, { isConfigured, nowMs }: ContactReadOptions
): RejectReason | undefined {
  const { reference, sentAt } = value
  const { service, country } = readTerms(value)
  const isTimely = sentAt >= nowMs - MAX_AGE_MS && sentAt <= nowMs + MAX_AHEAD_MS
  if (!isTimely) return 'invalid_sent_at'
  const fits = reference !== '' && reference.length <= MAX_REFERENCE_CHARACTERS
  if (!fits) return 'invalid_reference'
  if (!SLUGS.has(service)) return 'unknown_service'
  if (!isConfigured(service as ServiceSlug)) return 'service_not_configured'
  if (country !== '' && !COUNTRIES.has(country)) return 'invalid_country_code'
  return input.trim().length > MAX_INPUT_CHARACTERS ? 'too_long_input' : undefined
}

function openInput (value: FeedContact, { keys, partner }: ContactReadOptions): string | undefined {
  if (value.sealed === null) return undefined
  try {
    return openContact(keys, { ...value, partner }, value.sealed)
  } catch (error) {
    if (error instanceof FeedSealError) return undefined
    throw error
  }
}

type RejectedContact = {
  readonly offset: number
  readonly value: Pick<FeedContact, 'reference' | 'service'>
  readonly reason: RejectReason
}

type Target = Omit<ResultTarget, 'service'>

export type Rejections = ReturnType<typeof connectRejections>

/**
 * Results of contacts without a job, sent to the partners' topics. They are free, like every row
 * that fails its preflight.
 */
export function connectRejections (
  connected: Parameters<typeof connectPartnerResults>[0], { now }: { readonly now: () => number }
) {
  const results = connectPartnerResults(connected, 'feed')
  const cells = (status: 'invalid' | 'unknown', reason: string, confidence: string) => {
    const at = new Date(now()).toISOString()
    return { status, reason, source: 'preflight', confidence, checked_at: at, expires_at: at }
  }
  return {
    /** Sends the partner the reasons of invalid contacts; resolves when Kafka acknowledged them. */
    reject: async (
      target: Target, contacts: readonly RejectedContact[], signal?: AbortSignal
    ): Promise<void> => {
      const byService = Map.groupBy(contacts, ({ value }) => value.service)
      for (const [service, rejected] of byService) {
        await results.send({ ...target, service }, rejected.map(({ offset, value, reason }) =>
          ({ offset, reference: value.reference, cells: cells('invalid', reason, '100') })), signal)
      }
    },

    /** Sends the partner the result `unknown` for a contact that no job can be created for. */
    fail: async (
      target: Target,
      { contact, terms: { service } }: { readonly contact: Contact, readonly terms: Terms },
      signal?: AbortSignal
    ): Promise<void> => {
      const { offset, answers, reference, input } = contact
      const failed = {
        offset: answers ?? offset,
        reference,
        cells: { ...cells('unknown', 'internal', '0'), input },
      }
      await results.send({ ...target, service }, [failed], signal)
    },
  }
}
