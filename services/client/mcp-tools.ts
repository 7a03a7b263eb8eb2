import { Type, type Static, type TObject, type TProperties } from 'typebox'
import { DEADLINE_SECONDS, MAX_ID_CHARACTERS } from '../../schemas/api/create-job.ts'
import { API_SERVICES } from '../../schemas/api/parts.ts'
import { ROW_SOURCES, ROW_STATUSES } from '../../schemas/api/verdicts.ts'
import { CommandError, money, UsageError } from './terminal.ts'

/** Money of a session, USD micros. */
type SpendingFigures = {
  readonly limitMicros: number
  /** Charged for jobs that have ended. */
  readonly spentMicros: number
  /** Maximum prices of work that has not ended. */
  readonly reservedMicros: number
  /** What further work may cost. */
  readonly remainingMicros: number
}

/** What one piece of work, a job or a file, may cost. */
export type Reservation = {
  /** Raises the reservation to this price. Throws SpendingLimitError if the limit forbids it. */
  readonly cover: (micros: number) => void
  /** Replaces the reservation with the charge. Does nothing the second time. */
  readonly settle: (chargedMicros: number) => void
}

export type Spending = {
  readonly reserve: () => Reservation
  readonly figures: () => SpendingFigures
}

/** The session may not spend this much. Nothing was sent for it. */
class SpendingLimitError extends CommandError {
  override readonly name = 'SpendingLimitError'

  constructor (micros: number, figures: SpendingFigures) {
    const { limitMicros, spentMicros, reservedMicros, remainingMicros } = figures
    super(`spending_limit: this may cost up to ${money(micros)}, but only ` +
      `${money(remainingMicros)} of the limit of this session (${money(limitMicros)}) remains: ` +
      `${money(spentMicros)} is spent and ${money(reservedMicros)} reserved for work that has ` +
      'not ended. Verify fewer contacts, wait for running work to end, or ask the user to ' +
      'restart the server with a higher --max-spend.')
  }
}

/**
 * Counts what a session spends: the maximum price of everything that runs, and the charge of
 * everything that has ended. Their sum never exceeds the limit.
 */
export function createSpending (limitMicros: number): Spending {
  const reserved = new Map<symbol, number>()
  let spentMicros = 0
  const figures = (): SpendingFigures => {
    const reservedMicros = [...reserved.values()].reduce((sum, micros) => sum + micros, 0)
    const remainingMicros = limitMicros - spentMicros - reservedMicros
    return { limitMicros, spentMicros, reservedMicros, remainingMicros }
  }
  const reserve = (): Reservation => {
    const id = Symbol('reservation')
    reserved.set(id, 0)
    return {
      cover: micros => {
        const covered = reserved.get(id) ?? 0
        if (micros <= covered) return
        const now = figures()
        if (micros - covered > now.remainingMicros) throw new SpendingLimitError(micros, now)
        reserved.set(id, micros)
      },
      settle: chargedMicros => {
        // A resumed file also reports the charges of earlier sessions.
        spentMicros += Math.min(chargedMicros, reserved.get(id) ?? 0)
        reserved.delete(id)
      },
    }
  }
  return { reserve, figures }
}

const MAX_DOLLARS = 1_000_000

/** Parses dollars such as `5` or `2.50` to micros. Throws UsageError with the valid form. */
export function parseDollars (text: string): number {
  const [, dollars = '', fraction = ''] = /^(\d{1,7})(?:\.(\d{1,6}))?$/.exec(text) ?? []
  if (dollars === '' || Number(dollars) > MAX_DOLLARS) {
    throw new UsageError(`--max-spend ${text} is no amount of USD. Use a number like 5 or 2.50, ` +
      `at most ${MAX_DOLLARS}.`)
  }
  return Number(dollars) * 1_000_000 + Number(fraction.padEnd(6, '0'))
}

/** Contacts of one `verify_contacts` call. A longer list belongs in a file. */
const MAX_CONTACTS = 100
/** Rows of one `get_results` call: hosts truncate longer answers. */
const MAX_RESULT_ROWS = 200
/** Hosts end a call after a minute. */
const MAX_WAIT_SECONDS = 50
const DEFAULT_WAIT_SECONDS = 30

const input = <T extends TProperties>(properties: T) =>
  Type.Object(properties, { additionalProperties: false })

const Service = Type.Enum([...API_SERVICES], {
  description: 'phone-validation: is the number assigned, and of which type. carrier-lookup: ' +
    'also its carrier. email-validation: does the address accept mail. whatsapp, telegram: is ' +
    'the number registered there.',
})
const Contact = Type.String({ maxLength: 320 })
const Id = Type.String({ maxLength: MAX_ID_CHARACTERS })
const Country = Type.String({
  pattern: '^[A-Za-z]{2}$',
  description: 'ISO 3166 country of numbers in national form, such as DE. Without it only ' +
    'numbers in international form (+49...) are valid.',
})
const ForceFresh = Type.Boolean({
  description: 'Bypasses the cache. Costs more: cached contacts are free otherwise.',
})
const DeadlineSeconds = Type.Integer({
  minimum: DEADLINE_SECONDS.min,
  maximum: DEADLINE_SECONDS.max,
  description: 'When rows that still wait for a slow mail server end as unknown, free. Left out, ' +
    'usually six hours.',
})
const Options = Type.Array(Type.String({ maxLength: 40 }), {
  minItems: 1,
  maxItems: 10,
  description: 'What else to find out about each number, at a further price: line_status, ' +
    'sim_swap, call_forwarding, sms_pumping_risk, or reassigned_number with the date of the last ' +
    'contact (reassigned_number:2026-01-31), if the service sells them.',
})
const File = Type.String({
  minLength: 1, maxLength: 4_096, description: 'Path of a CSV file with a header line.',
})
const Column = Type.String({
  minLength: 1,
  maxLength: 1_000,
  description: 'Column of the contacts, by name or position (#3). By default the only ' +
    'plausible one.',
})
const WaitSeconds = Type.Integer({
  minimum: 0,
  maximum: MAX_WAIT_SECONDS,
  default: DEFAULT_WAIT_SECONDS,
  description: 'How long to wait for the end.',
})
const JobId = Type.String({ pattern: '^job_[0-9a-z]{1,40}$', description: 'job_...' })

const Micros = Type.Integer({ description: 'USD micros; 1 USD is 1,000,000.' })
const Count = Type.Integer()

const SpendingFields = Type.Object({
  limitMicros: Micros, spentMicros: Micros, reservedMicros: Micros, remainingMicros: Micros,
}, { description: 'Money of this session.' })

/** Open types: a newer service may know further states and columns. */
const Job = Type.Object({
  id: Type.String(),
  status: Type.String({ description: 'completed, cancelled and failed are final.' }),
  service: Type.String(),
  totalRows: Count,
  successRecords: Type.Integer({ description: 'Rows with a verdict.' }),
  failedRecords: Type.Integer({ description: 'Rows without a verdict.' }),
  pendingRecords: Type.Integer({ description: 'Rows that have not ended.' }),
  verdicts: Type.Union([Type.Record(Type.String(), Count), Type.Null()], {
    description: 'Rows that are valid, invalid, risky and unknown so far; null if not known.',
  }),
  reasons: Type.Union([Type.Record(Type.String(), Count), Type.Null()], {
    description: 'The same rows by reason.',
  }),
  maxQuoteMicros: Micros,
  chargedMicros: Micros,
  releasedMicros: Micros,
  deadline: Type.Union([Type.String(), Type.Null()], {
    description: 'When rows that still wait end as unknown; null without a deadline.',
  }),
  waiting: Type.Union([
    Type.Object({
      rows: Count, reasons: Type.Record(Type.String(), Count), estimatedEndAt: Type.String(),
    }),
    Type.Null(),
  ], { description: 'Rows whose servers ask to come back later; null for none.' }),
})
const Rows = Type.Array(Type.Record(Type.String(), Type.Unknown()), {
  description: 'Result columns by name, blank ones left out. status is the verdict, reason its ' +
    'cause.',
})
const NextCursor = Type.Union([Type.String(), Type.Null()], {
  description: 'To be sent as cursor; null on the last page.',
})

const READS = { readOnlyHint: true, openWorldHint: false }
const SPENDS = {
  readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true,
}

/** The tools as hosts list them, with their arguments and structured results. */
export const TOOLS = {
  verifyContacts: {
    name: 'verify_contacts',
    title: 'Verify contacts',
    description: 'Verifies up to 100 phone numbers or e-mail addresses of one kind and returns a ' +
      'row for each. Costs money within the spending limit of the session.',
    annotations: SPENDS,
    input: input({
      service: Service,
      contacts: Type.Array(Type.Union([Contact, input({ input: Contact, id: Id })]), {
        minItems: 1,
        maxItems: MAX_CONTACTS,
        description: 'Phone numbers or e-mail addresses; with your own id of each, which its row ' +
          'then has, as objects.',
      }),
      country: Type.Optional(Country),
      force_fresh: Type.Optional(ForceFresh),
      options: Type.Optional(Options),
      deadline_seconds: Type.Optional(DeadlineSeconds),
      wait_seconds: Type.Optional(WaitSeconds),
    }),
    output: Type.Object({
      ended: Type.Boolean({ description: 'false: call get_results with the id of the job later.' }),
      job: Job,
      rows: Rows,
      spending: SpendingFields,
    }),
  },
  estimateFile: {
    name: 'estimate_file',
    title: 'Estimate a CSV file',
    description: 'Says what a file may cost and which verdicts to expect, free: a sample of up ' +
      'to 100 contacts is verified, once a day. Of a file with more than 100,000 rows it is ' +
      'about those first. Creates no job.',
    annotations: { readOnlyHint: true, openWorldHint: true },
    input: input({
      file: File,
      service: Type.Optional(Service),
      column: Type.Optional(Column),
      country: Type.Optional(Country),
      options: Type.Optional(Options),
    }),
    output: Type.Object({
      service: Type.String(),
      rows: Type.Integer({ description: 'Rows of the file.' }),
      quotedRows: Type.Integer({ description: 'The first rows, which all else is about.' }),
      invalidRows: Count,
      duplicateRows: Count,
      cacheHits: Count,
      freshChecks: Count,
      maxQuoteMicros: Micros,
      estimate: Type.Object({
        status: Type.String({
          description: 'running: some contacts have no answer yet; call estimate_file again later.',
        }),
        reason: Type.Union([Type.String(), Type.Null()], {
          description: 'Why there is no estimate; null if there is one.',
        }),
        contacts: Type.Integer({ description: 'The contacts that the shares are of.' }),
        checkedContacts: Count,
        shares: Type.Union([Type.Record(Type.String(), Type.Object({
          share: Type.Number(), low: Type.Number(), high: Type.Number(),
        })), Type.Null()], {
          description: 'The expected share of each verdict, from 0 to 1, with its 95 % interval.',
        }),
      }),
    }),
  },
  verifyFile: {
    name: 'verify_file',
    title: 'Verify a CSV file',
    description: 'Verifies a column of a CSV file and writes a copy with the results beside it, ' +
      'FILE.verified.csv. Costs money within the spending limit of the session. For long files ' +
      'call it with the same arguments until ended is true.',
    annotations: SPENDS,
    input: input({
      file: File,
      service: Type.Optional(Service),
      column: Type.Optional(Column),
      country: Type.Optional(Country),
      force_fresh: Type.Optional(ForceFresh),
      options: Type.Optional(Options),
      deadline_seconds: Type.Optional(DeadlineSeconds),
      replace: Type.Optional(Type.Boolean({
        description: 'Discards an unfinished run and replaces the results file. May pay again.',
      })),
      wait_seconds: Type.Optional(WaitSeconds),
    }),
    output: Type.Object({
      ended: Type.Boolean({
        description: 'false: call verify_file with the same arguments again.',
      }),
      output: Type.String({
        description: 'The file with the results, complete when ended is true.',
      }),
      rows: Count,
      doneRows: Count,
      waitingRows: Type.Integer({
        description: 'Rows whose servers ask to come back later.',
      }),
      byStatus: Type.Record(Type.String(), Count, { description: 'Rows by verdict, at the end.' }),
      jobs: Type.Array(Type.String(), { description: 'Ids of the jobs, at the end.' }),
      chargedMicros: Micros,
      spending: SpendingFields,
    }),
  },
  getJob: {
    name: 'get_job',
    title: 'Status of a job',
    description: 'Returns the status, progress and price of a job.',
    annotations: READS,
    input: input({ job_id: JobId }),
    output: Type.Object({ ended: Type.Boolean(), job: Job, spending: SpendingFields }),
  },
  getResults: {
    name: 'get_results',
    title: 'Results of a job',
    description: 'Returns result rows of a job that has ended, a page at a time.',
    annotations: READS,
    input: input({
      job_id: JobId,
      status: Type.Optional(Type.Enum([...ROW_STATUSES], { description: 'Only such rows.' })),
      source: Type.Optional(Type.Enum([...ROW_SOURCES], { description: 'Only such rows.' })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_RESULT_ROWS, default: 50 })),
      cursor: Type.Optional(Type.String({
        minLength: 1, maxLength: 100, description: 'The next_cursor of the page before.',
      })),
    }),
    output: Type.Object({ rows: Rows, has_more: Type.Boolean(), next_cursor: NextCursor }),
  },
  getBalance: {
    name: 'get_balance',
    title: 'Balance',
    description: 'Returns the balance of the organization and what this session may still spend.',
    annotations: READS,
    input: input({}),
    output: Type.Object({
      balanceMicros: Micros,
      reservedMicros: Micros,
      availableMicros: Micros,
      currency: Type.String(),
      spending: SpendingFields,
    }),
  },
} as const

export type ToolKey = keyof typeof TOOLS
export type ToolInput<K extends ToolKey> = Static<typeof TOOLS[K]['input']>
export type ToolOutput<K extends ToolKey> = Static<typeof TOOLS[K]['output']>

/** The fields of a schema that a value has; null for those that an older service lacks. */
export function pickFields<T extends TObject> (
  { properties }: T, value: Readonly<Record<string, unknown>>
): Static<T> {
  return Object.fromEntries(
    Object.keys(properties).map(name => [name, value[name] ?? null])) as Static<T>
}

/** The wait of a call in milliseconds. */
export const parseWaitMs = ({ wait_seconds: seconds = DEFAULT_WAIT_SECONDS }: {
  readonly wait_seconds?: number
}): number => seconds * 1_000
