import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { expect, it as oneByOne } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { sumOf } from '../../support/metrics.ts'
import { customerOf, type Customer, type Row } from './customer.ts'
import { newCustomer, PROXY, shared, whileHalted, workspace } from './support.ts'

/*
 * What a customer finds who has read the interface text and the guides. All it takes from outside
 * `customer.ts` are addresses and keys. Services with other settings are tested elsewhere:
 *
 * | 100 requests a second: a queue that waits too long | test/unit/ingest/tenant-queues.test.ts   |
 * | sums of counters over random jobs with failures    | test/properties/counters.test.ts        |
 * | e-mail verdicts with the DNS                       | test/e2e/email-domains.test.ts          |
 * | the largest body                                   | test/e2e/bad-input/rows.ts              |
 * | HTTPS by certificate files                         | test/e2e/https.test.ts                  |
 * | webhooks: names that lead to a private network     | test/e2e/bad-input/addresses.ts         |
 */

/** Each test has customers of its own. */
const it = oneByOne.concurrent

const phones = 'phone-validation'
const emails = 'email-validation'
/** The price of a row of the two validations, in micros. */
const PRICE = 2_000
const BURST = 100

type Keys = { readonly live: Customer, readonly test: Customer, readonly orgId: string }

/** A customer with a live and a test key, and so much money. */
async function aCustomer (micros = 10_000_000): Promise<Keys> {
  const { live, test, orgId } = await newCustomer(micros)
  const { baseUrl } = shared().environment
  return {
    live: customerOf({ baseUrl, key: live.key }),
    test: customerOf({ baseUrl, key: test.key }),
    orgId,
  }
}

/** A customer whose contract is about two POST requests a minute, and 150 GET requests a second. */
async function aSmallCustomer (): Promise<Keys> {
  const customer = await aCustomer()
  await workspace(({ organizations }) =>
    organizations.setPolicy(customer.orgId, { postSustained: 2, gets: 150 }))
  const limit = async () => (await customer.live.ask('/balance')).headers['ratelimit-limit']
  await eventually(async () => expect(await limit()).toBe('150'))
  return customer
}

/** Numbers of New York and its like, with these last four digits. */
const numbers = (count: number, ending: string) => Array.from({ length: count }, (_, at) =>
  `+1${212 + Math.floor(at / 700)}${200 + at % 700}${ending}`)

const thousand = numbers(1_000, '0008')
const statusesOf = (answers: readonly { readonly status: number }[]) =>
  answers.map(({ status }) => status)
const all = <T> (count: number, value: T) => Array<T>(count).fill(value)

it.each([
  ['jobs of one row', ['call me'], { path: '/jobs', status: 202 }],
  ['jobs of 1,000 rows', thousand, { path: '/jobs', status: 202 }],
  ['quotes of 1,000 rows', thousand, { path: '/quotes', status: 200 }],
])('a customer is served all of a hundred %s sent at once', async (_, inputs, { path, status }) => {
  const { live } = await aCustomer(1_000_000_000)
  // Jobs of rows that are known take no slot of the ten active jobs; a quote never does.
  if (path === '/jobs') await live.run({ service: phones, inputs })
  const answers = await Promise.all(all(BURST, { service: phones, inputs })
    .map(body => live.post(path, body)))
  expect(statusesOf(answers)).toEqual(all(BURST, status))
  expect(new Set(answers.map(({ body }) => body.preflight.quoteId)).size).toBe(BURST)
  expect(answers.map(({ headers }) => headers['retry-after'])).toEqual(all(BURST, '0'))
})

it('a customer has one rate limit for its live and its test key together', async () => {
  const { live, test } = await aSmallCustomer()
  const job = { service: phones, inputs: ['call me'] }
  const answers = [await live.post('/jobs', job), await test.post('/jobs', job),
    await live.post('/jobs', job), await test.post('/jobs', job)]
  expect(statusesOf(answers)).toEqual([202, 202, 429, 429])
  expect(answers.map(({ headers }) => headers['ratelimit-remaining']))
    .toEqual(['1', '0', '0', '0'])
})

const COUNTERS = ['cacheHits', 'freshRecords', 'invalidRecords', 'duplicateRecords',
  'unknownRecords', 'cancelledRecords', 'pendingRecords']

oneByOne('a customer finds every row in exactly one counter, whatever the state of the job',
  async () => {
    const { live } = await aCustomer()
    const [known = ''] = thousand
    await live.run({ service: phones, inputs: [known] })
    const inputs = [known, 'call me', known, '+12127360003', ...numbers(990, '0004')]
    const follow = (id: string) => live.ended(id, state => {
      const sum = COUNTERS.reduce((total, name) => total + state[name], 0)
      expect([state.status, sum]).toEqual([state.status, inputs.length])
    })
    const { ids, ended } = await whileHalted('verify-1', async () => {
      const wanted = { service: phones, inputs }
      const created = await Promise.all([live.post('/jobs', wanted), live.post('/jobs', wanted)])
      const ids = created.map(({ body }) => body.id as string)
      const ended = Promise.all(ids.map(follow))
      ended.catch(() => {})
      await eventually(async () => expect((await live.ask(`/jobs/${ids[0]}`)).body.status)
        .toBe('verifying'))
      expect((await live.ask(`/jobs/${ids[0]}/cancel`, { method: 'POST' })).status).toBe(202)
      return { ids, ended }
    })
    const jobs = await ended
    expect(jobs.map(({ status }) => status)).toEqual(['cancelled', 'completed'])
    for (const [index, job] of jobs.entries()) {
      const rows = await live.rows(ids[index] ?? '')
      expect(rows.map(row => row.input)).toEqual(inputs)
      const countOf = (source: string, reason?: string) => rows.filter(row =>
        row.source === source && (reason === undefined || row.reason === reason)).length
      const { cacheHits, freshRecords, cancelledRecords, duplicateRecords, invalidRecords } = job
      expect([cacheHits, freshRecords, cancelledRecords, duplicateRecords, invalidRecords])
        .toEqual([countOf('cache'), countOf('live'), countOf('none', 'cancelled'),
          countOf('duplicate'), countOf('preflight')])
      expect(job.unknownRecords).toBe(countOf('none') - job.cancelledRecords)
      expect(job.chargedMicros).toBe(job.freshRecords * PRICE)
      expect([job.successRecords + job.failedRecords, job.pendingRecords])
        .toEqual([inputs.length, 0])
    }
    expect(jobs.map(({ cancelledRecords }) => cancelledRecords)).toEqual([991, 0])
  })

const CHECKS = ['syntax', 'lists', 'domain', 'mailbox', 'numbering_plan', 'carrier_range', 'vendor']
const isNetwork = (row: Row) =>
  row.carrier !== '' || (row.mcc !== '' && row.mnc !== '')

it('a customer pays for a row only if its check gave the requested verdict', async () => {
  const { live } = await aCustomer()
  const { body: { data: services } } = await live.ask('/services')
  const free = ['unknown', 'none']
  const cases = [
    ['carrier-lookup', ['+447400123456', '+12127365000', '+15555555555'],
      [['valid', 'live'], free, free]],
    ['carrier-single', ['+12127360008', '+12127360001'], [['valid', 'live'], free]],
    [emails, ['jane@mailinator.com', 'jane@example.com', 'sales@mail.org', 'jane@mail.org'],
      [['risky', 'live'], ['invalid', 'live'], free, free]],
  ] as const
  for (const [service, inputs, expected] of cases) {
    const { job, rows } = await live.run({ service, inputs })
    expect(rows.map(row => [row.status, row.source])).toEqual(expected)
    const sold = rows.filter(row => row.source === 'live')
    const { priceMicros } = services.find(({ slug }: { slug: string }) => slug === service)
    expect([job.freshRecords, job.chargedMicros, job.unknownRecords])
      .toEqual([sold.length, sold.length * priceMicros, inputs.length - sold.length])
    if (service !== emails) expect(sold.filter(row => !isNetwork(row))).toEqual([])
  }
  const again = await live.run({ service: 'carrier-lookup', inputs: ['+12127360008'] })
  expect(again.job).toMatchObject({ cacheHits: 1, chargedMicros: 0 })
})

it('a customer gets what a live key could, for nothing, with a test key', async () => {
  const { test } = await aCustomer()
  const inputs = ['+12127360001', '+12127360007', '+12127360008']
  for (const service of ['carrier-single', 'carrier-lookup']) {
    const { rows } = await test.run({ service, inputs })
    expect(rows.map(row => [row.status, isNetwork(row)]))
      .toEqual([['unknown', false], ['valid', true], ['valid', true]])
  }
  for (const service of ['whatsapp', 'telegram']) {
    const { job, rows } = await test.run({ service, inputs })
    expect(rows.map(row => [row.status, row[service]]))
      .toEqual([['invalid', 'false'], ['invalid', 'false'], ['valid', 'true']])
    expect([rows[1]?.reason, job.chargedMicros]).toEqual(['not_registered', 0])
    const reached = await test.ask(`/jobs/${job.id}/results?format=json&status=valid`)
    expect(reached.body.data.map((row: { e164: string }) => row.e164)).toEqual([inputs[2]])
  }
})

it('a customer reads what each service checks before it pays', async () => {
  const { live } = await aCustomer()
  const { body: { data: services } } = await live.ask('/services')
  expect(services).toHaveLength(6)
  for (const { slug, configured, checks, limitations, inputKind } of services) {
    expect(checks.filter((check: string) => !CHECKS.includes(check))).toEqual([])
    expect([slug, configured]).toEqual([slug, checks.length > 0])
    if (!configured) continue
    const inputs = [inputKind === 'email' ? 'jane@mail.org' : '+447400123456']
    const quote = await live.post('/quotes', { service: slug, inputs })
    expect(quote.body).toMatchObject({ checks, limitations })
  }
  const ofRange = services.find(({ slug }: { slug: string }) => slug === 'carrier-lookup')
  expect(ofRange.limitations).toContain('carrier_of_range')
})

/** ISO 3166-1 alpha-2 as published, and three other codes in common use. */
const COUNTRIES = `AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM
BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM
DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW
GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA
LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ
NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW
SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR
TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW XK AC TA`.split(/\s/)

it('a customer may name every country, whatever it verifies', async () => {
  expect(new Set(COUNTRIES).size).toBe(249 + 3)
  const answers = await Promise.all([0, 1, 2].map(async third => {
    const { test } = await aCustomer()
    return Promise.all(COUNTRIES.filter((_, at) => at % 3 === third).map(async countryCode => {
      const body = { service: emails, inputs: ['jane@example.com'], countryCode }
      return [countryCode, (await test.post('/quotes', body)).status]
    }))
  }))
  expect(answers.flat().filter(([, status]) => status !== 200)).toEqual([])
  const { test } = await aCustomer()
  const inputs = ['(212) 736-5000', '+442079460958']
  for (const [countryCode, ...first] of [
    ['AQ', 'preflight', '', 'no_calling_code'], ['uS', 'live', '+12127365000', 'assigned_range'],
  ]) {
    const { rows } = await test.run({ service: phones, inputs, countryCode, forceFresh: true })
    expect(rows.map(row => [row.source, row.e164, row.reason]))
      .toEqual([first, ['live', '+442079460958', 'assigned_range']])
  }
})

it('a customer may send e-mail addresses as people write them', async () => {
  const { test } = await aCustomer()
  const same = ['John@foo.com', 'John Smith <john@foo.com>', '"Smith, John" <john@foo.com>',
    'mailto:john@foo.com', 'john@foo.com.', '"john"@foo.com', 'john(at work)@foo.com',
    ' JOHN@FOO.COM ']
  const others = ['jane@[192.0.2.1]', 'jane@x_mail.com', '"jane doe"@foo.com']
  const inputs = [...same, ...others]
  const { created, rows } = await test.run({ service: emails, inputs })
  expect(created.preflight).toMatchObject({ invalidRows: 0, duplicateRows: same.length - 1 })
  expect(rows.map(row => row.input)).toEqual(inputs)
  expect(rows.map(row => row.duplicate_of))
    .toEqual(['', ...all(same.length - 1, '1'), ...others.map(() => '')])
  expect(rows.map(row => row.email)).toEqual([
    'John@foo.com', ...all(6, 'john@foo.com'), 'JOHN@foo.com', ...others])
  const later = await test.run({ service: emails, inputs: ['<jOHN@Foo.com>'] })
  expect(later.job.cacheHits).toBe(1)
})

it('a customer that closes its side of the connection gets its answer', async () => {
  const { live } = await aCustomer()
  const socket = await live.sendOnly(JSON.stringify({ service: phones, inputs: ['call me'] }))
  socket.end()
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 202 .*"id":"job_/s)
})

it('a customer finds nothing in clear behind a proxy, and HSTS behind HTTPS', async () => {
  const { live } = await aCustomer()
  const through = (path: string, from: string, proto: string) =>
    live.ask(path, { from, headers: { 'x-forwarded-proto': proto } })
  for (const path of ['/balance', '//openapi.json', '//docs', '//changelog', '//']) {
    const secure = await through(path, PROXY, 'https')
    expect([path, secure.status]).toEqual([path, 200])
    expect(secure.headers['strict-transport-security']).toMatch(/^max-age=\d{7,}/)
    for (const [from, proto] of [
      [PROXY, 'http'], [PROXY, ''], [PROXY, 'https, http'], ['127.0.0.1', 'http'],
    ] as const) {
      const { status, code } = await through(path, from, proto)
      expect([path, from, proto, status, code]).toEqual([path, from, proto, 403, 'https_required'])
    }
  }
  for (const path of ['//healthz', '//readyz', '//metrics']) {
    expect([path, (await live.ask(path)).status]).toEqual([path, 404])
  }
})

it('a customer may have events sent to any public address, and reads why not', async () => {
  const { test } = await aCustomer()
  const send = async (url: string) => {
    const body = { service: phones, inputs: ['x'], webhook_url: url }
    const { status, code, body: { error } } = await test.post('/quotes', body)
    return { status, code, message: String(error?.message) }
  }
  for (const url of ['https://8.8.8.8/hook', 'https://[2606:4700:4700::1111]/hook',
    'https://b\u00fccher.example/hook', 'https://xn--bcher-kva.example/hook',
    'https://\u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444/', 'https://example.com:8443/',
    'https://example.com/'.padEnd(2_048, 'a')]) {
    expect([url, (await send(url)).status]).toEqual([url, 200])
  }
  for (const [url, why] of [
    ['https://10.0.0.1/', /public address/], ['https://[fe80::1]/', /public address/],
    ['https://intranet/', /public name/], ['ftp://example.com/', /begin with https/],
    ['https://jane:pw@example.com/', /user name or password/], ['example.com', /absolute URL/],
    ['https://jane@example.com/', /user name or password/], ['', /absolute URL/],
    ['https://169.254.169.254/latest', /public address/],
    ['https://example.com:22/', /port 22/], ['https://example.com/'.padEnd(2_049, 'a'), /2,048/],
  ] as const) {
    expect({ url, ...await send(url) }).toEqual({
      url, status: 400, code: 'invalid_webhook_url', message: expect.stringMatching(why),
    })
  }
})

it('a customer may add a slash, try a 402 with a quote, and use what the guides name', async () => {
  const { test } = await aCustomer()
  for (const inputs of [['+1 500 555 0402'], ['x', '+15005550402']]) {
    const { status, code } = await test.post('/quotes/', { service: phones, inputs })
    expect([status, code]).toEqual([402, 'insufficient_balance'])
  }
  const { status, body: { id } } = await test.post('/jobs/', { service: phones, inputs: ['=1+x'] })
  expect(status).toBe(202)
  await test.ended(id)
  for (const path of ['/jobs', `/jobs/${id}`, `/jobs/${id}/results`, '/balance', '/services']) {
    const [plain, slashed] = [await test.ask(path), await test.ask(`${path}/`)]
    expect([path, slashed.status, slashed.text]).toEqual([path, 200, plain.text])
  }
  const guide = readFileSync('deploy/docs/security.md', 'utf8')
  const [parameter = ''] = /\?\w+=spreadsheet/.exec(guide) ?? []
  expect((await test.ask(`/jobs/${id}/results${parameter}`)).text).toContain("\r\n1,'=1+x,")
})

it('a customer reads in the 402 that rows from the cache count towards the maximum', async () => {
  const { live } = await aCustomer(2 * PRICE)
  const wanted = { service: phones, inputs: numbers(2, '0009') }
  await live.run(wanted)
  const { status, code, body: { error } } = await live.post('/jobs', wanted)
  expect([status, code]).toEqual([402, 'insufficient_balance'])
  expect(error).toMatchObject({ requiredMicros: 2 * PRICE, availableMicros: 0 })
  expect(error.message).toMatch(/rows from the cache .* reserved/)
  expect((await live.ask('/balance')).body)
    .toMatchObject({ balanceMicros: 0, reservedMicros: 0, availableMicros: 0 })
  const { job } = await live.run({ service: phones, inputs: ['call me', ''] })
  expect([job.status, job.maxQuoteMicros]).toEqual(['completed', 0])
  expect((await live.ask('/jobs')).body.data).toHaveLength(2)
})

const LIMITS = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'retry-after']

it('a customer finds its limits in every answer, refusals too', async () => {
  const { live } = await aCustomer(PRICE - 1)
  const good = { service: phones, inputs: ['+12127360008'] }
  const answers = await Promise.all([
    live.ask('/balance'), live.ask('/jobs'), live.ask('/jobs?limit=0'), live.ask('/jobs/job_1'),
    live.ask('/jobs', { body: 'a=b', headers: { 'content-type': 'text/plain' } }),
    live.ask('/jobs', { body: '{' }), live.post('/jobs', { ...good, service: 'fax' }),
    live.ask('/jobs', { body: good, headers: { 'idempotency-key': 'one' } }),
    live.post('/jobs', good), live.post('/jobs', { ...good, inputs: ['x'] }),
    live.post('/quotes', good), live.ask('/nothing'), live.ask('/jobs', { method: 'PUT' }),
  ])
  expect(statusesOf(answers))
    .toEqual([200, 200, 400, 404, 415, 400, 400, 400, 402, 202, 200, 404, 405])
  for (const { status, headers } of answers) {
    const [limit = -1, remaining = -1, reset, retryAfter] =
      LIMITS.map(name => Number(headers[name]))
    expect([status, Number.isInteger(reset), retryAfter]).toEqual([status, true, 0])
    expect([100, 200]).toContain(limit)
    expect(remaining >= 0 && remaining <= limit).toBe(true)
  }
})

/**
 * What was asked while the limits that all instances share decided. When Redis has answered late,
 * as on a busy machine, those of one instance decide for a second, and both have counted a part.
 */
async function onSharedLimits<T> (ask: () => Promise<T>): Promise<T> {
  const decidedAlone = () => sumOf(shared().environment.services.list(), 'limits_local_total')
  for (;;) {
    const before = await decidedAlone()
    const answer = await ask()
    if (await decidedAlone() === before) return answer
  }
}

it('a customer can count down its limit and come back when the answer says', async () => {
  const job = { service: phones, inputs: ['call me'] }
  const { live, answers } = await onSharedLimits(async () => {
    const { live } = await aSmallCustomer()
    return {
      live,
      answers: [await live.post('/jobs', job), await live.ask('/jobs', { body: '{' }),
        await live.post('/quotes', job)],
    }
  })
  expect(statusesOf(answers)).toEqual([202, 400, 429])
  expect(answers.map(({ headers }) => [headers['ratelimit-limit'], headers['ratelimit-remaining'],
    headers['ratelimit-policy']])).toEqual(
    ['1', '0', '0'].map(remaining => ['2', remaining, '100;w=1, 2;w=60']))
  // A token comes every 30 seconds, and the bucket is full after a minute.
  const [wait = 0, reset = 0] = ['retry-after', 'ratelimit-reset']
    .map(name => Number(answers[2]?.headers[name]))
  expect([wait >= 1 && wait <= 30, reset > 30 && reset <= 60]).toEqual([true, true])
  expect((await live.ask('//docs')).text).toMatch(/up to 2,000 requests in its first\s+minute/)
})
