import { Type, type Static } from 'typebox'
import { Count } from './parts.ts'

/** What can be checked of a contact, with what is meant. */
export const CHECKS = {
  syntax: 'the form of the contact',
  lists: 'lists of disposable domains, role names and common typos',
  domain: 'the DNS of the mail domain',
  mailbox: 'the mailbox at its mail server',
  catch_all: 'whether the mail server accepts every name',
  numbering_plan: 'whether the range of the number is assigned',
  carrier_range: 'the carrier that the range is assigned to',
  vendor: 'what a vendor knows of the contact',
} as const

export type CheckName = keyof typeof CHECKS

/** What a check of a contact can find, with what is meant. */
export const OUTCOME_MEANINGS = {
  passed: 'nothing is wrong with the contact',
  failed: 'the contact cannot be used',
  caution: 'there is a reason for caution',
  inconclusive: 'there was no clear answer',
} as const

export type CheckOutcome = keyof typeof OUTCOME_MEANINGS

/** Their order is part of stored results: outcomes are added at the end only. */
export const CHECK_OUTCOMES = Object.keys(OUTCOME_MEANINGS) as readonly CheckOutcome[]

/** The checks that were made of a contact, with their outcomes. */
export type RowChecks = Readonly<Partial<Record<CheckName, CheckOutcome>>>

const meanings = Object.entries(OUTCOME_MEANINGS)
  .map(([code, means]) => `\`${code}\`: ${means}`).join('; ')

/** The schema of the field `checks` of a row. */
export const rowChecksSchema = {
  type: ['object', 'null'],
  description: 'The checks that the verdict is made of, with the outcome of each. ' +
    `${meanings}. More may be added. Null for a row that an earlier release verified.`,
  properties: Object.fromEntries(Object.entries(CHECKS).map(([name, means]) =>
    [name, { type: 'string', description: `Of ${means}.` }])),
  additionalProperties: { type: 'string' },
} as const

/** What the checks of a service can leave open, with what is meant. */
export const LIMITATIONS = {
  domain_not_checked: 'only disposable and reserved mail domains get a verdict',
  mailbox_not_checked: 'an address whose domain accepts mail ends unknown, free of charge',
  range_only: 'the verdict is about the range of the number, not about the number itself',
  carrier_of_range: 'the carrier is the first holder of the range, who a ported number has left',
} as const

/** Limitations in words, for people; a code that this release does not know stays as it is. */
export function limitationsText (codes: readonly string[]): string {
  const meanings: Readonly<Record<string, string>> = LIMITATIONS
  return codes.map((code) => meanings[code] ?? code).join('; ')
}

const codes = (about: string, meanings: Readonly<Record<string, string>>) => {
  const list = Object.entries(meanings).map(([code, means]) => `\`${code}\`: ${means}`).join('; ')
  return Type.Array(Type.String(), { description: `${about} ${list}. More may be added.` })
}

/** What is checked of the contacts of a service. */
export const checksFields = {
  checks: codes('What is checked with the configuration of today, nothing for test keys.', CHECKS),
  limitations: codes('What these checks leave open.', LIMITATIONS),
}
export type ChecksBody = Static<Type.TObject<typeof checksFields>>

const ReferenceDataSchema = Type.Object({
  name: Type.String({
    description: 'What the data are, such as `number_ranges` or `disposable_domains`; `added_` ' +
      'begins the name of a list whose entries count beside those of another.',
  }),
  version: Type.String(),
  publishedAt: Type.String({ description: 'Day of publication (ISO 8601): `2026-11-06`.' }),
  ageDays: Count('Whole days since publication.'),
}, { title: 'ReferenceData' })

/** Published data that verdicts rest on, with their age. */
export type ReferenceDataBody = Static<typeof ReferenceDataSchema>

/** The answer to GET /api/v1/services: all services, for the mode of the key. */
export const ServicesSchema = Type.Object({
  data: Type.Array(Type.Object({
    slug: Type.String(),
    inputKind: Type.Enum(['phone', 'email']),
    priceMicros: Count('USD micros for a row checked live with a verdict.'),
    columns: Type.Array(Type.String(), {
      description: 'Columns of the result file behind those that all services have.',
    }),
    options: Type.Array(Type.Object({
      name: Type.String(),
      priceMicros: Count('USD micros that it adds to the price of a row.'),
      columns: Type.Array(Type.String()),
    }, { title: 'ServiceOption' }), {
      description: 'What a job may choose to find out beside the verdict (field `options`), with ' +
        'the columns that it adds. More may be added.',
    }),
    configured: Type.Boolean({ description: 'Whether a job of this key may use it now.' }),
    ...checksFields,
    data: Type.Array(ReferenceDataSchema, {
      description: 'Published data that verdicts of the service rest on. More may be added.',
    }),
  }, {
    title: 'Service',
    examples: [{
      slug: 'phone-validation',
      inputKind: 'phone',
      priceMicros: 2_000,
      columns: ['timezone', 'national_format', 'extension', 'vanity', 'voip_type'],
      options: [{ name: 'line_status', priceMicros: 9_000, columns: ['line_status'] }],
      configured: true,
      checks: ['syntax', 'numbering_plan', 'carrier_range'],
      limitations: ['range_only'],
      data: [
        { name: 'number_ranges', version: '9.0.43', publishedAt: '2026-11-06', ageDays: 21 },
      ],
    }],
  })),
}, { title: 'ServiceList' })
export type ServicesBody = Static<typeof ServicesSchema>
