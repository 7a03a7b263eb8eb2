import type { VendorKey } from '../../../services/jobs/checks.ts'
import {
  accepted, answered, BAD, basic, failing, GOOD, hasEnded, isGood, type FakeVendor, type Handler,
} from './fake-vendor.ts'
import { zipOf } from '../zip.ts'

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

const PHONES = [GOOD, BAD, '+12127365002']
const REGISTERED = ['valid registered', 'invalid not_registered', 'valid registered']

/** The fakes of vendors that check phone numbers, by the setting with their key. */
export const PHONE_VENDORS: Readonly<Record<VendorKey, FakeVendor>> = {
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
}
