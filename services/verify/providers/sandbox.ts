import { setTimeout as sleep } from 'node:timers/promises'
import { listColumns, SERVICE_DEFINITIONS, type ContactKind } from '../../jobs/results/columns.ts'
import { type ServiceSlug, SERVICE_SLUGS } from '../../topology.ts'
import type { Reason, RowStatus } from '../../../schemas/api/verdicts.ts'
import { OPTION_NAMES } from '../../jobs/options.ts'
import {
  type ProviderRequest, ProviderError, type Provider, type ProviderVerdict,
} from '../provider.ts'

/** The outcome of a magic input; with `retry` the row has it only after the last retry. */
type MagicOutcome = {
  readonly magic: string
  readonly means: string
  readonly status: RowStatus
  readonly reason: Reason
  readonly confidence: number
  readonly delayMs?: number
  readonly retry?: true
  /** The priced options of a job have no answer. */
  readonly answersNoOption?: true
  readonly fields?: Readonly<Record<string, string>>
}

const SLOW_ANSWER_MS = 2_000

type More = Omit<MagicOutcome, 'magic' | 'means' | 'status' | 'reason' | 'confidence'>

const magicOutcome = (
  magic: string, means: string, [status, reason, confidence]: readonly [RowStatus, Reason, number],
  more: More = {}
): MagicOutcome => ({ magic, means, status, reason, confidence, ...more })

/** Outcomes by the last four digits of the E.164 number; every other number is valid. */
export const MAGIC_PHONES: readonly MagicOutcome[] = [
  magicOutcome('0001', 'the number is in no assigned range', ['invalid', 'unassigned_range', 80],
    { fields: { line_type: 'unknown', whatsapp: 'false', telegram: 'false' } }),
  magicOutcome('0002', 'the line was disconnected recently', ['risky', 'line_disconnected', 60]),
  magicOutcome('0003', 'the check has no verdict', ['unknown', 'no_answer', 0]),
  magicOutcome('0004', 'valid, answered after two seconds', ['valid', 'assigned_range', 90],
    { delayMs: SLOW_ANSWER_MS }),
  magicOutcome('0005', 'the check is unavailable: retried for 15 minutes, then unknown',
    ['unknown', 'unavailable', 0], { retry: true }),
  magicOutcome('0006', 'the check times out: retried for 15 minutes, then unknown',
    ['unknown', 'timeout', 0], { retry: true }),
  magicOutcome('0007', 'valid and ported; for messengers `invalid`, not registered',
    ['valid', 'assigned_range', 90],
    { fields: { whatsapp: 'false', telegram: 'false', ported: 'true' } }),
  magicOutcome('0008', 'valid; `unknown`, `option_not_answered`, for a job with options',
    ['valid', 'assigned_range', 90], { answersNoOption: true }),
]

/** Outcomes by the local part before any `+tag`; every other address is valid. */
export const MAGIC_EMAILS: readonly MagicOutcome[] = [
  magicOutcome('invalid', 'the mailbox does not exist', ['invalid', 'mailbox_not_found', 95]),
  magicOutcome('risky', 'the domain accepts mail for any name', ['risky', 'catch_all', 50],
    { fields: { catch_all: 'true' } }),
  magicOutcome('unknown', 'the check has no verdict', ['unknown', 'no_answer', 0]),
  magicOutcome('slow', 'valid, answered after two seconds', ['valid', 'deliverable', 95],
    { delayMs: SLOW_ANSWER_MS }),
  magicOutcome('unavailable', 'the check is unavailable: retried for 15 minutes, then unknown',
    ['unknown', 'unavailable', 0], { retry: true }),
  magicOutcome('timeout', 'the check times out: retried for 15 minutes, then unknown',
    ['unknown', 'timeout', 0], { retry: true }),
  magicOutcome('disposable', 'a disposable address', ['risky', 'disposable_domain', 90],
    { fields: { disposable: 'true' } }),
  magicOutcome('role', 'a role address, not a person', ['risky', 'role_address', 70],
    { fields: { role: 'true' } }),
]

const ORDINARY: Readonly<Record<ContactKind, MagicOutcome>> = {
  phone: magicOutcome('', 'any other number', ['valid', 'assigned_range', 90]),
  email: magicOutcome('', 'any other address', ['valid', 'deliverable', 95]),
}

const RANGE_FIELDS = {
  region: 'Test Region',
  locality: 'Testville',
  line_type: 'mobile',
  carrier: 'Test Mobile',
  timezone: 'Etc/UTC',
}
/** Vendors know the network and the portings, which numbering plans do not have. */
const CARRIER_FIELDS = { ...RANGE_FIELDS, mcc: '001', mnc: '01', ported: 'false' }

/** The fields of an ordinary sandbox contact: those that live providers of the service can fill. */
const SCRIPTED_FIELDS: Readonly<Record<ServiceSlug, Readonly<Record<string, string>>>> = {
  'phone-validation': RANGE_FIELDS,
  'carrier-single': CARRIER_FIELDS,
  'carrier-lookup': CARRIER_FIELDS,
  whatsapp: { whatsapp: 'true' },
  telegram: { telegram: 'true' },
  'email-validation': {
    disposable: 'false',
    role: 'false',
    free: 'false',
    catch_all: 'false',
    mx_found: 'true',
  },
}

/** The answers to the options of an ordinary number. */
const OPTION_FIELDS = {
  line_status: 'reachable',
  sim_swap: 'false',
  sim_swap_period: 'PT24H',
  call_forwarding: 'false',
  reassigned_number: 'false',
  sms_pumping_risk: '5',
  carrier_risk: 'low',
}

/**
 * Answers for test keys. The input alone determines the outcome, so a customer can test every
 * outcome free of charge. Only the rows with scripted failures are retried. One slow input delays
 * its whole call by `slowMs`, which tests shorten.
 */
export function createSandboxProvider ({ slowMs = SLOW_ANSWER_MS } = {}): Provider {
  return {
    id: 3,
    services: SERVICE_SLUGS,
    options: OPTION_NAMES,
    check: async (rows, { service, options, signal }) => {
      const { kind } = SERVICE_DEFINITIONS[service]
      const outcomes = rows.map(({ row, canonical }) =>
        ({ row, outcome: findOutcome(kind, canonical) }))
      if (outcomes.some(({ outcome }) => outcome.delayMs !== undefined)) {
        await sleep(slowMs, undefined, { signal })
          .catch(() => { throw new ProviderError('timeout') })
      }
      return outcomes.map(({ row, outcome }) => ({
        row,
        verdict: toVerdict(outcome, { service, options }),
        ...(outcome.retry === true ? { retry: true } : {}),
      }))
    },
  }
}

function findOutcome (kind: ContactKind, canonical: string): MagicOutcome {
  const table = kind === 'phone' ? MAGIC_PHONES : MAGIC_EMAILS
  // Without its tag, so that `invalid+1@` and `invalid+2@` are different contacts.
  const key = kind === 'phone'
    ? canonical.slice(-4)
    : canonical.slice(0, canonical.lastIndexOf('@')).toLowerCase().split('+')[0]
  return table.find(({ magic }) => magic === key) ?? ORDINARY[kind]
}

function toVerdict (
  outcome: MagicOutcome, { service, options }: Pick<ProviderRequest, 'service' | 'options'>
): ProviderVerdict {
  const { status, confidence } = outcome
  const isKnown = status === 'valid' || status === 'risky'
  const all: Readonly<Record<string, string>> = {
    ...isKnown && SCRIPTED_FIELDS[service],
    ...isKnown && outcome.answersNoOption !== true && OPTION_FIELDS,
    ...outcome.fields,
  }
  const columns = listColumns(service, { options })
  const fields = Object.fromEntries(Object.entries(all).filter(([name]) => columns.includes(name)))
  if (status !== 'valid' || fields[service] === undefined) {
    return { status, reason: outcome.reason, confidence, fields }
  }
  // For messengers the column with the name of the service has whether the number is registered.
  return fields[service] === 'true'
    ? { status, reason: 'registered', confidence, fields }
    : { status: 'invalid', reason: 'not_registered', confidence, fields }
}
