import { CHECKS, type CheckName } from './services.ts'

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
