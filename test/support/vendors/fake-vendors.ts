import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { describedVendor, VENDOR_PRESETS, type VendorKey } from '../../../services/jobs/checks.ts'
import type { ServiceSlug } from '../../../services/topology.ts'
import { listen } from '../listen.ts'
import { zipOf } from '../zip.ts'

/**
 * How all of them behave: as documented, or with one of the documented errors. `partial` leaves out
 * the first contact, `running` never ends a task, `lost` accepts a task and cuts the reply off.
 */
export type FakeMode =
  | 'well' | 'unauthorized' | 'limited' | 'empty' | 'broken' | 'partial' | 'running' | 'failed'
  | 'lost' | 'refusing'

/** An answer; one that is cut off was made, but does not arrive. */
type Reply = { readonly status?: number, readonly body: unknown, readonly cut?: true }

/** A request to a vendor. */
type Asked = {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly json: () => unknown
  readonly form: () => Promise<FormData>
  readonly url: string
}

/** Contacts that a vendor has taken. */
type Task = {
  readonly contacts: readonly string[]
  readonly product?: string
  polls: number
}

/** What all vendors share. */
type Shared = {
  readonly mode: () => FakeMode
  readonly buy: (contacts: readonly string[], file?: string) => void
  readonly tasks: Map<string, Task>
}

/** A vendor. */
type Handler = (asked: Asked, shared: Shared) => Reply | Promise<Reply>

/** A preset that answers at once, a contact that it is asked for, and the verdict that follows. */
type FakeVerdict = readonly [
  preset: string, service: ServiceSlug, contact: string, status: string, reason: string,
  fields: Readonly<Record<string, string>>
]

/** A preset that takes batches, the contacts of one, and the verdicts that follow. */
type FakeBatch = readonly [
  preset: string, service: ServiceSlug, contacts: readonly string[], verdicts: readonly string[]
]

/** The fake of a vendor: all that the tests of its descriptions in `deploy/providers/` need. */
type FakeVendor = {
  /** A key as the vendor's console shows it; `{url}` becomes the address of the fakes. */
  readonly key: string
  /** What answers requests to paths with these prefixes. */
  readonly routes: Readonly<Record<string, Handler>>
  /** Of presets that answer at once. The first one of each is also asked with every error. */
  readonly verdicts?: readonly FakeVerdict[]
  /** Of presets that take batches. */
  readonly batches?: readonly FakeBatch[]
}

/** A number that the fakes know, and one that they do not. */
export const GOOD = '+12127365000'
export const BAD = '+12127365001'

const AUTH_STATUS = { unauthorized: 401, limited: 429, empty: 402, broken: 500 } as const

/** What a vendor answers instead, in its own words, if it fails. */
function failing (
  { mode }: Shared, bodyOf: (status: number) => unknown, refused: Reply = { status: 400, body: '' }
): Reply | undefined {
  const now = mode()
  if (now === 'refusing') return refused
  if (!Object.hasOwn(AUTH_STATUS, now)) return undefined
  const status = AUTH_STATUS[now as keyof typeof AUTH_STATUS]
  return { status, body: bodyOf(status) }
}

/** Numbers that end in an even digit are known. */
const isGood = (number: string) => Number(number.at(-1)) % 2 === 0
/** The header of basic authentication. */
const basic = (key: string) => `Basic ${Buffer.from(key).toString('base64')}`

type Accepted = { readonly product?: string, readonly file?: string }

/** Takes contacts as a task, which is charged for; returns its id. */
function accepted (
  shared: Shared, contacts: readonly string[], { product, file }: Accepted = {}
): string {
  const id = `task-${randomUUID()}`
  shared.buy(contacts, file)
  shared.tasks.set(id, { contacts, polls: 0, ...product === undefined ? {} : { product } })
  return id
}

/** A task ends between the first and the second question for it. */
function hasEnded (task: Task, { mode }: Shared): boolean {
  task.polls++
  return task.polls > 1 && mode() !== 'running'
}

/** The contacts that the results of a task have. */
const answered = ({ contacts }: Task, { mode }: Shared) =>
  mode() === 'partial' ? contacts.slice(1) : contacts

const TWILIO_KEY = 'AC0f1e2d3c4b5a69788796a5b4c3d2e1f0:tw:9f8e7d6c5b4a'
const TELNYX_KEY = 'KEY0190A1B2C3D4E5F6_telnyxsecret'
const VONAGE_KEY = 'a1b2c3d4:vonageSecret1'
const CHECKNUMBER_KEY = 'cnkey0123456789'

/** The packages of Twilio Lookup; the carriers of numbers that end in 8 are not covered. */
function twilioPackages (number: string, query: URLSearchParams) {
  const covered = <T extends object>(answer: T) => number.endsWith('8')
    ? { ...Object.fromEntries(Object.keys(answer).map(name => [name, null])), error_code: 60601 }
    : { ...answer, error_code: null }
  return {
    line_status: covered({ status: 'reachable' }),
    sim_swap: covered({
      last_sim_swap: {
        last_sim_swap_date: '2026-04-27T10:18:50Z',
        swapped_period: 'PT24H',
        swapped_in_period: true,
      },
      carrier_name: 'SECRET-TEXT',
    }),
    call_forwarding: covered({ call_forwarding_enabled: false }),
    reassigned_number: {
      last_verified_date: query.get('LastVerifiedDate'),
      is_number_reassigned: number.endsWith('8') ? 'no_data_available' : 'yes',
      error_code: null,
    },
    sms_pumping_risk: {
      carrier_risk_category: number.endsWith('4') ? 'SECRET-TEXT' : 'moderate',
      number_blocked: false,
      sms_pumping_risk_score: 61,
      error_code: null,
    },
  }
}

/** Twilio Lookup v2. */
const twilio: Handler = ({ path, headers, query }, shared) => {
  const number = decodeURIComponent(path.split('/')[3] ?? '')
  const codes: Readonly<Record<number, number>> = { 401: 20003, 429: 20429, 402: 20003 }
  const error = failing(shared, (status) => ({
    code: codes[status],
    message: 'SECRET-TEXT',
    status,
    more_info: `https://www.twilio.com/docs/errors/${codes[status]}`,
  }), { status: 404, body: { code: 20404, message: 'SECRET-TEXT', status: 404 } })
  if (error !== undefined) return error
  const isKnown = headers.authorization === basic(TWILIO_KEY)
  if (!isKnown) return { status: 401, body: { code: 20003 } }
  const [first, ...packages] = query.get('Fields')?.split(',') ?? []
  const known = twilioPackages(number, query)
  const isDated = /^\d{8}$/.test(query.get('LastVerifiedDate') ?? '')
  if (first !== 'line_type_intelligence' || packages.some(name => !(name in known)) ||
    packages.includes('reassigned_number') !== isDated) return { status: 400, body: {} }
  shared.buy([number])
  return {
    body: {
      calling_country_code: '1',
      country_code: 'US',
      phone_number: number,
      valid: isGood(number),
      validation_errors: isGood(number) ? [] : ['INVALID_BUT_POSSIBLE'],
      national_format: '(212) 736-5000',
      caller_name: null,
      url: `https://lookups.twilio.com${path}`,
      ...Object.fromEntries(Object.entries(known).map(([name, answer]) =>
        [name, packages.includes(name) && isGood(number) ? answer : null])),
      line_type_intelligence: isGood(number)
        ? {
            error_code: null,
            mobile_country_code: '310',
            mobile_network_code: '410',
            carrier_name: number.endsWith('4') ? 'Twilio - SMS/MMS-SVR' : 'AT&T Wireless',
            type: number.endsWith('2')
              ? 'nonFixedVoip'
              : number.endsWith('6') ? 'fixedVoip' : 'mobile',
          }
        : null,
    },
  }
}

/** Telnyx Number Lookup. */
const telnyx: Handler = ({ path, headers }, shared) => {
  const number = decodeURIComponent(path.split('/')[3] ?? '')
  const codes: Readonly<Record<number, string>> = { 401: '10009', 429: '10011', 402: '20100' }
  const error = failing(shared, (status) => ({
    errors: [{ code: codes[status] ?? '10000', title: 'SECRET-TEXT', detail: 'telnyx' }],
  }), { status: 422, body: { errors: [{ code: '10015', title: 'Bad Request' }] } })
  if (error !== undefined) return error
  if (headers.authorization !== `Bearer ${TELNYX_KEY}`) {
    return { status: 401, body: { errors: [{ code: '10009' }] } }
  }
  shared.buy([number])
  return {
    body: {
      data: {
        record_type: 'number_lookup',
        country_code: 'US',
        phone_number: number,
        national_format: '(212) 736-5000',
        valid_number: isGood(number),
        fraud: null,
        caller_name: { caller_name: 'SECRET-TEXT', error_code: null },
        carrier: {
          name: number.endsWith('4') ? 'Telnyx/4' : 'Verizon Wireless',
          type: 'fixed line',
          mobile_country_code: 'US',
          mobile_network_code: 866,
          error_code: null,
        },
        portability: { ported_status: number.endsWith('2') ? 'Y' : 'N', lrn: '2245701999' },
      },
    },
  }
}

/** Vonage Number Insight Standard. */
const vonage: Handler = ({ query, headers }, shared) => {
  const number = query.get('number') ?? ''
  const statuses = { limited: 1, refusing: 3, unauthorized: 4, empty: 9 } as const
  const mode = shared.mode()
  if (mode === 'broken') return { status: 500, body: 'SECRET-TEXT' }
  const isKnown = headers.authorization === basic(VONAGE_KEY)
  const status = Object.hasOwn(statuses, mode) ? statuses[mode as 'limited'] : isKnown ? 0 : 4
  if (status !== 0) return { body: { status, status_message: 'SECRET-TEXT', request_id: 'x' } }
  shared.buy([number])
  return {
    body: {
      status,
      status_message: 'Success',
      request_id: 'aaaaaaaa-bbbb-cccc-dddd-0123456789ab',
      international_format_number: number,
      country_code: 'US',
      request_price: '0.00500000',
      remaining_balance: '18.30908949',
      ported: 'assumed_not_ported',
      current_carrier: isGood(number)
        ? { network_code: '310410', name: 'AT&T Mobility', country: 'US', network_type: 'mobile' }
        : { network_code: null, name: null, country: 'US', network_type: 'unknown' },
    },
  }
}

/** checknumber.ai, tasks. */
const checknumber: Handler = async ({ path, headers, form, url }, shared) => {
  const [, kind, file = ''] = path.split('/')
  if (kind === 'results') {
    const task = shared.tasks.get(file.replace('.zip', ''))
    if (task === undefined || headers['x-api-key'] !== undefined) return { status: 403, body: '' }
    const column = task.product === 'tg' ? 'telegram' : 'whatsapp'
    const rows = answered(task, shared).map((one) => `${one},${isGood(one) ? 'yes' : 'no'}`)
    return { body: zipOf({ 'results.csv': [`Number,${column}`, ...rows].join('\n') }) }
  }
  const error = failing(shared, () => ({ error: 'SECRET-TEXT checknumber' }))
  if (error !== undefined) return error
  if (headers['x-api-key'] !== CHECKNUMBER_KEY) return { status: 401, body: {} }
  const sent = await form()
  if (file === 'tasks') {
    const list = sent.get('file') as File
    const contacts = (await list.text()).trim().split('\n')
    const product = String(sent.get('task_type'))
    const id = accepted(shared, contacts, { product, file: list.name })
    const body = { task_id: id, status: 'pending', total: contacts.length, user_id: 'SECRET-TEXT' }
    return { body, ...shared.mode() === 'lost' ? { cut: true } : {} }
  }
  const id = String(sent.get('task_id'))
  const task = shared.tasks.get(id)
  if (task === undefined) return { status: 404, body: {} }
  const status = hasEnded(task, shared)
    ? shared.mode() === 'failed' ? 'failed' : 'exported'
    : 'processing'
  const result = status === 'exported' ? { result_url: `${url}/results/${id}.zip` } : {}
  return { body: { task_id: id, status, success: 0, failure: 0, ...result } }
}

const REACHER_SECRET = 'reacherSecret'
const BOUNCER_KEY = 'bouncerKey0123456789abcdef'
const ZEROBOUNCE_KEY = 'zb0123456789abcdef0123456789abcd'

/** What a mailbox is follows from the local part. */
const kindOf = (email: string) => /^[a-z]+/.exec(email)?.[0] ?? ''

/** Reacher. */
const reacher: Handler = ({ json, headers }, shared) => {
  const error = failing(shared, () => ({ error: 'SECRET-TEXT reacher' }))
  if (error !== undefined) return error
  if (headers['x-reacher-secret'] !== REACHER_SECRET) return { status: 401, body: {} }
  const { to_email: email } = json() as { to_email: string }
  const kind = kindOf(email)
  shared.buy([email])
  const states: Readonly<Record<string, string>> = {
    good: 'safe', bad: 'invalid', nomail: 'invalid', unknown: 'unknown',
  }
  return {
    body: {
      input: email,
      is_reachable: states[kind] ?? 'risky',
      misc: { is_disposable: kind === 'disposable', is_role_account: kind === 'role' },
      mx: { accepts_mail: kind !== 'nomail', records: ['mx.reacher.example.'] },
      smtp: {
        can_connect_smtp: true,
        has_full_inbox: kind === 'full',
        is_catch_all: kind === 'catchall',
        is_deliverable: kind === 'good',
        is_disabled: false,
      },
      syntax: { address: email, is_valid_syntax: true },
    },
  }
}

function bouncerRow (email: string) {
  const kind = kindOf(email)
  const yes = (is: boolean) => is ? 'yes' : 'no'
  const known: Readonly<Record<string, readonly [string, string]>> = {
    good: ['deliverable', 'accepted_email'],
    bad: ['undeliverable', 'rejected_email'],
    nomail: ['undeliverable', 'invalid_domain'],
    unknown: ['unknown', 'timeout'],
    odd: ['SECRET-TEXT', 'SECRET-TEXT'],
  }
  const [status, reason] = known[kind] ?? ['risky', 'low_quality']
  return {
    email,
    status,
    reason,
    score: 50,
    toxic: 'unknown',
    provider: 'bouncer.example',
    domain: {
      name: email.split('@')[1],
      acceptAll: yes(kind === 'catchall'),
      disposable: yes(kind === 'disposable'),
      free: 'no',
    },
    account: { role: yes(kind === 'role'), disabled: 'unknown', fullMailbox: yes(kind === 'full') },
    dns: { type: 'MX', record: 'mx.bouncer.example.' },
  }
}

const bouncerError = (shared: Shared) => failing(shared, (status) =>
  ({ status: String(status), error: 'Payment Required', message: 'SECRET-TEXT credits left' }))

/** Bouncer, one address or a batch. */
const bouncer: Handler = ({ method, path, query, headers, json }, shared) => {
  const error = bouncerError(shared)
  if (error !== undefined) return error
  if (headers['x-api-key'] !== BOUNCER_KEY) return { status: 401, body: {} }
  if (path === '/v1.1/email/verify') {
    const email = query.get('email') ?? ''
    shared.buy([email])
    return { body: bouncerRow(email) }
  }
  const [, , , , , id = '', download] = path.split('/')
  if (method === 'POST') {
    const contacts = (json() as { email: string }[]).map((one) => one.email)
    const batchId = accepted(shared, contacts)
    const reply = { batchId, status: 'queued', quantity: contacts.length, duplicates: 0 }
    return { body: reply, ...shared.mode() === 'lost' ? { cut: true } : {} }
  }
  const task = shared.tasks.get(id)
  if (task === undefined) return { status: 404, body: { status: '404', error: 'Not Found' } }
  if (download === 'download') return { body: answered(task, shared).map(bouncerRow) }
  return { body: { batchId: id, status: hasEnded(task, shared) ? 'completed' : 'processing' } }
}

const ZERO: Readonly<Record<string, readonly [string, string]>> = {
  good: ['valid', ''],
  bad: ['invalid', 'mailbox_not_found'],
  nomail: ['invalid', 'no_dns_entries'],
  unknown: ['unknown', 'greylisted'],
  catchall: ['catch-all', ''],
  role: ['do_not_mail', 'role_based'],
  disposable: ['do_not_mail', 'disposable'],
  full: ['invalid', 'mailbox_quota_exceeded'],
  trap: ['spamtrap', ''],
  odd: ['SECRET-TEXT', 'SECRET-TEXT'],
}

/** ZeroBounce, one address. */
const zerobounce: Handler = ({ query, path, headers }, shared) => {
  const mode = shared.mode()
  if (mode === 'broken') return { status: 500, body: 'SECRET-TEXT' }
  if (mode === 'limited') return { status: 429, body: 'SECRET-TEXT' }
  if (mode === 'refusing') return { status: 400, body: { error: 'SECRET-TEXT' } }
  const isKnown = query.get('api_key') === ZEROBOUNCE_KEY
  if (!isKnown || mode === 'unauthorized' || mode === 'empty' || !headers.accept || path === '/') {
    return { body: { error: 'Invalid API key or your account ran out of credits' } }
  }
  const email = query.get('email') ?? ''
  const [status, sub] = ZERO[kindOf(email)] ?? ['unknown', '']
  shared.buy([email])
  return {
    body: {
      address: email,
      status,
      sub_status: sub,
      free_email: false,
      did_you_mean: null,
      account: null,
      domain: null,
      smtp_provider: 'zerobounce',
      mx_found: 'true',
      mx_record: 'mx.zerobounce.example',
      processed_at: '2026-08-11 00:00:00.000',
    },
  }
}

/** ZeroBounce, files. */
const zeroFile: Handler = async ({ path, query, form }, shared) => {
  const mode = shared.mode()
  const no = () => ({ status: 400, body: { success: false, message: ['SECRET-TEXT'] } })
  if (mode === 'broken') return { status: 500, body: 'SECRET-TEXT' }
  if (mode === 'limited') return { status: 429, body: 'SECRET-TEXT' }
  if (['unauthorized', 'empty', 'refusing'].includes(mode)) return no()
  if (path === '/v2/sendfile') {
    const sent = await form()
    const file = sent.get('file') as File
    const [head, ...lines] = (await file.text()).trim().split('\n')
    const isRight = sent.get('api_key') === ZEROBOUNCE_KEY &&
      sent.get('email_address_column') === '1' && sent.get('has_header_row') === 'true' &&
      head === 'Email Address' && file.type === 'text/csv'
    if (!isRight) return no()
    const id = accepted(shared, lines, { file: file.name })
    const body = { success: true, message: 'File Accepted', file_name: file.name, file_id: id }
    return { body, ...mode === 'lost' ? { cut: true } : {} }
  }
  const task = shared.tasks.get(query.get('file_id') ?? '')
  if (task === undefined) return no()
  if (path === '/v2/getfile') {
    const cells = answered(task, shared).map((email) => [email, ...ZERO[kindOf(email)] ?? ['', '']])
    const names = ['Email Address', 'ZB Status', 'ZB Sub Status', 'ZB Free Email', 'ZB MX Found']
    const lines = cells.map((row) => [...row, 'False', 'true'])
    return { body: [names, ...lines].map((row) => `"${row.join('","')}"`).join('\n') }
  }
  const state = hasEnded(task, shared) ? 'Complete' : 'Processing'
  return { body: { success: true, file_name: 'zerobounce.csv', file_status: state } }
}

const PHONES = [GOOD, BAD, '+12127365002']
const REGISTERED = ['valid registered', 'invalid not_registered', 'valid registered']
const EMAILS = ['good@x.org', 'bad@x.org', 'full@x.org', 'unknown@x.org']

/** The fakes of all vendors, by the setting with their key. */
export const FAKE_VENDORS: Readonly<Record<VendorKey, FakeVendor>> = {
  VENDOR_TWILIO_KEY: {
    key: TWILIO_KEY,
    routes: { '/v2/PhoneNumbers/': twilio },
    verdicts: [
      ['twilio', 'phone-validation', GOOD, 'valid', 'assigned_range',
        { carrier: 'AT&T Wireless', line_type: 'mobile' }],
      ['twilio', 'phone-validation', BAD, 'invalid', 'unassigned_range', {}],
      ['twilio', 'phone-validation', '+12127365002', 'valid', 'assigned_range',
        { carrier: 'AT&T Wireless', line_type: 'voip', voip_type: 'non_fixed' }],
      ['twilio', 'carrier-single', '+12127365006', 'valid', 'assigned_range', {
        carrier: 'AT&T Wireless', mcc: '310', mnc: '410', line_type: 'voip', voip_type: 'fixed',
      }],
      ['twilio', 'carrier-lookup', '+12127365004', 'valid', 'assigned_range',
        { mcc: '310', mnc: '410', line_type: 'mobile' }],
    ],
  },
  VENDOR_TELNYX_KEY: {
    key: TELNYX_KEY,
    routes: { '/v2/number_lookup/': telnyx },
    verdicts: [
      ['telnyx', 'phone-validation', GOOD, 'valid', 'assigned_range',
        { carrier: 'Verizon Wireless', line_type: 'landline' }],
      ['telnyx', 'carrier-single', '+12127365002', 'valid', 'assigned_range',
        { carrier: 'Verizon Wireless', line_type: 'landline', ported: 'true' }],
      ['telnyx', 'carrier-single', '+12127365004', 'unknown', 'carrier_unknown',
        { line_type: 'landline', ported: 'false' }],
      ['telnyx', 'phone-validation', BAD, 'invalid', 'unassigned_range',
        { carrier: 'Verizon Wireless', line_type: 'landline' }],
    ],
  },
  VENDOR_VONAGE_KEY: {
    key: VONAGE_KEY,
    routes: { '/ni/standard/json': vonage },
    verdicts: [
      ['vonage', 'carrier-lookup', GOOD, 'valid', 'assigned_range',
        { carrier: 'AT&T Mobility', line_type: 'mobile', ported: 'false' }],
      ['vonage', 'carrier-lookup', BAD, 'unknown', 'carrier_unknown',
        { line_type: 'unknown', ported: 'false' }],
    ],
  },
  VENDOR_CHECKNUMBER_KEY: {
    key: CHECKNUMBER_KEY,
    routes: {
      '/v1/tasks': checknumber,
      '/v1/gettasks': checknumber,
      '/results/': checknumber,
    },
    batches: [
      ['checknumber', 'whatsapp', PHONES, REGISTERED],
      ['checknumber', 'telegram', PHONES, REGISTERED],
    ],
  },
  VENDOR_REACHER_KEY: {
    key: `{url} ${REACHER_SECRET}`,
    routes: { '/v1/check_email': reacher },
    verdicts: [
      ['reacher', 'email-validation', 'good@x.org', 'valid', 'deliverable',
        { disposable: 'false', role: 'false', catch_all: 'false', mx_found: 'true' }],
      ['reacher', 'email-validation', 'nomail@x.org', 'invalid', 'no_mail_service',
        { disposable: 'false', role: 'false', catch_all: 'false', mx_found: 'false' }],
      ['reacher', 'email-validation', 'full@x.org', 'risky', 'mailbox_full',
        { disposable: 'false', role: 'false', catch_all: 'false', mx_found: 'true' }],
      ['reacher', 'email-validation', 'low@x.org', 'risky', 'delivery_uncertain',
        { disposable: 'false', role: 'false', catch_all: 'false', mx_found: 'true' }],
      ['reacher', 'email-validation', 'unknown@x.org', 'unknown', 'no_answer', {}],
    ],
  },
  VENDOR_BOUNCER_KEY: {
    key: BOUNCER_KEY,
    routes: { '/v1.1/email/verify': bouncer },
    verdicts: [
      ['bouncer', 'email-validation', 'good@x.org', 'valid', 'deliverable',
        { disposable: 'false', role: 'false', catch_all: 'false', free: 'false' }],
      ['bouncer', 'email-validation', 'bad@x.org', 'invalid', 'mailbox_not_found',
        { disposable: 'false', role: 'false', catch_all: 'false', free: 'false' }],
      ['bouncer', 'email-validation', 'disposable@x.org', 'risky', 'disposable_domain',
        { disposable: 'true', role: 'false', catch_all: 'false', free: 'false' }],
      ['bouncer', 'email-validation', 'catchall@x.org', 'risky', 'catch_all',
        { disposable: 'false', role: 'false', catch_all: 'true', free: 'false' }],
      ['bouncer', 'email-validation', 'low@x.org', 'risky', 'delivery_uncertain',
        { disposable: 'false', role: 'false', catch_all: 'false', free: 'false' }],
      ['bouncer', 'email-validation', 'odd@x.org', 'unknown', 'unclear_answer', {}],
    ],
    batches: [
      ['bouncer-batch', 'email-validation', EMAILS, [
        'valid deliverable', 'invalid mailbox_not_found', 'risky mailbox_full', 'unknown no_answer',
      ]],
    ],
  },
  VENDOR_ZEROBOUNCE_KEY: {
    key: ZEROBOUNCE_KEY,
    routes: {
      '/v2/validate': zerobounce,
      '/v2/sendfile': zeroFile,
      '/v2/filestatus': zeroFile,
      '/v2/getfile': zeroFile,
    },
    verdicts: [
      ['zerobounce', 'email-validation', 'good@x.org', 'valid', 'deliverable',
        { free: 'false', mx_found: 'true' }],
      ['zerobounce', 'email-validation', 'catchall@x.org', 'risky', 'catch_all',
        { free: 'false', mx_found: 'true', catch_all: 'true' }],
      ['zerobounce', 'email-validation', 'trap@x.org', 'risky', 'do_not_mail',
        { free: 'false', mx_found: 'true' }],
      ['zerobounce', 'email-validation', 'unknown@x.org', 'unknown', 'greylisted', {}],
    ],
    batches: [
      ['zerobounce-batch', 'email-validation', EMAILS, [
        'valid deliverable', 'invalid mailbox_not_found', 'invalid mailbox_full',
        'unknown greylisted',
      ]],
    ],
  },
}

/** Running vendors. */
export type FakeVendors = Awaited<ReturnType<typeof startFakeVendors>>

/** Nothing that a customer sees may contain one of these. */
export const FAKE_WORDS: readonly string[] = [
  ...new Set([...VENDOR_PRESETS].flatMap(([name, { vendor }]) => [
    name.replace(/^http:|-batch$/g, ''),
    ...(vendor as { readonly words?: readonly string[] }).words ?? [],
  ])),
  'amazonaws', 'task-', 'SECRET-TEXT', ...Object.values(FAKE_VENDORS).map(({ key }) => key),
]

/** A key of the fake whose setting this is. */
function fakeKey (setting: VendorKey, url: string): string {
  const fake = FAKE_VENDORS[setting]
  if (fake !== undefined) return fake.key.replace('{url}', url)
  throw new Error(`there is no fake of the vendor with ${setting}: add it to FAKE_VENDORS in ` +
    'test/support/vendors/fake-vendors.ts')
}

/** A preset as operators use it, but at the address of the fakes and with a changed description. */
export function presetAt (url: string, name: string, more: object = {}): object {
  const preset = VENDOR_PRESETS.get(name)
  if (preset === undefined) throw new Error(`there is no preset ${name}`)
  const vendor = describedVendor(preset, fakeKey(preset.key.setting, url))
  return { ...JSON.parse(JSON.stringify(vendor).replaceAll(/https:\/\/[a-z.]+/g, url)), ...more }
}

const ROUTES = Object.values(FAKE_VENDORS).flatMap(({ routes }) => Object.entries(routes))

/** The vendors of all presets at one address, in the forms that they document. */
export async function startFakeVendors () {
  let mode: FakeMode = 'well'
  /** The contacts of each call that a vendor would have charged for. */
  const purchases: (readonly string[])[] = []
  /** The names of the files of these calls, if they had one. */
  const files: string[] = []
  /** Method and path of every call. */
  const calls: string[] = []
  const shared: Shared = {
    mode: () => mode,
    tasks: new Map(),
    buy: (contacts, file) => {
      purchases.push(contacts)
      if (file !== undefined) files.push(file)
    },
  }
  let url = ''
  const server = createServer((request, response) => {
    const at = new URL(request.url ?? '/', url)
    const answer = async () => {
      const body = await buffer(request)
      const type = request.headers['content-type'] ?? ''
      const asked: Asked = {
        method: request.method ?? '',
        path: at.pathname,
        query: at.searchParams,
        headers: request.headers,
        url,
        json: () => JSON.parse(body.toString()) as unknown,
        form: async () =>
          await new Response(new Uint8Array(body), {
            headers: { 'content-type': type },
          }).formData(),
      }
      calls.push(`${asked.method} ${at.pathname}`)
      const handler = ROUTES.find(([prefix]) => at.pathname.startsWith(prefix))?.[1]
      const reply = await handler?.(asked, shared) ?? { status: 404, body: '' }
      if (reply.cut === true) return response.destroy()
      const retryAfter = reply.status === 429 ? { 'retry-after': '1' } : {}
      response.writeHead(reply.status ?? 200, { server: 'SECRET-TEXT', ...retryAfter })
      const isRaw = typeof reply.body === 'string' || Buffer.isBuffer(reply.body)
      response.end(isRaw ? reply.body : JSON.stringify(reply.body))
    }
    answer().catch(() => response.destroy())
  })
  url = `http://127.0.0.1:${await listen(server)}`
  return {
    url,
    purchases,
    files,
    calls,
    behave: (next: FakeMode) => { mode = next },
    stop: () => { server.close() },
  }
}
