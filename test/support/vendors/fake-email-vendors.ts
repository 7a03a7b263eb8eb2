import type { VendorKey } from '../../../services/jobs/checks.ts'
import {
  accepted, answered, failing, hasEnded, type FakeVendor, type Handler, type Shared,
} from './fake-vendor.ts'

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

const EMAILS = ['good@x.org', 'bad@x.org', 'full@x.org', 'unknown@x.org']

/** The fakes of vendors that check e-mail addresses, by the setting with their key. */
export const EMAIL_VENDORS: Readonly<Record<VendorKey, FakeVendor>> = {
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
