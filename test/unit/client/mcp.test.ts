import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type QuoteBody, QuoteSchema } from '../../../schemas/api/quote.ts'
import { createSpending } from '../../../services/client/mcp.ts'
import { runProgram } from '../../../services/client/program.ts'
import { newFolder } from '../../support/folder.ts'
import { exampleOf, type FakeOptions, refusal, verdictOf } from './fake-service.ts'
import { connectHost } from './mcp-host.ts'

const folder = newFolder('mcp-')
const output = join(folder, 'in.verified.csv')
beforeEach(() => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  writeFileSync(join(folder, 'in.csv'), 'phone\n+12127365000\n+12127365001\n')
})

type Connected = Awaited<ReturnType<typeof connectHost>>
const connected: Connected[] = []
afterEach(async () => { await Promise.all(connected.splice(0).map(({ host }) => host.close())) })

async function connect (limitMicros: number, fake: FakeOptions = {}): Promise<Connected> {
  const session = await connectHost(folder, { limitMicros, fake })
  connected.push(session)
  return session
}
const spendingOf = async ({ call }: Connected) => (await call('get_balance')).output.spending

const PHONES = { service: 'phone-validation', contacts: ['+12127365000', '+12127365001'] }

describe('the MCP server', () => {
  it('says to hosts which of its tools only read', async () => {
    const { host } = await connect(100)
    const { tools } = await host.listTools()
    expect(tools.filter(({ annotations }) => annotations?.readOnlyHint !== true)
      .map(({ name }) => name)).toEqual(['verify_contacts', 'verify_file'])
  })

  it('passes arguments on, and returns rows, job and price', async () => {
    const { call, service } = await connect(100)
    const options = ['sim_swap']
    const args = { ...PHONES, country: 'DE', force_fresh: true, deadline_seconds: 60, options }
    const { text, output } = await call('verify_contacts', args)
    expect(output).toMatchObject({
      ended: true,
      job: { id: 'job_1', status: 'completed', totalRows: 2, chargedMicros: 10 },
      spending: { limitMicros: 100, spentMicros: 10, reservedMicros: 0, remainingMicros: 90 },
    })
    // Without blank cells.
    expect(output.rows[1]).toEqual(
      { row: 2, input: '+12127365001', e164: verdictOf('+12127365001'), status: 'valid' })
    expect(JSON.parse(text)).toEqual(output)
    expect(service.jobs[0]?.body)
      .toMatchObject({ countryCode: 'DE', forceFresh: true, deadline: 60, options })
    expect((await call('get_job', { job_id: 'job_9' })).text).toBe('404 job_not_found: none')
  })

  it.each([
    ['101 contacts', 'verify_contacts', { ...PHONES, contacts: Array(101).fill('+1') }],
    ['an unknown argument', 'verify_contacts', { ...PHONES, countryCode: 'DE' }],
    ['a country in words', 'verify_contacts', { ...PHONES, country: 'Germany' }],
    ['no file to estimate', 'estimate_file', { service: 'phone-validation' }],
    ['a wait of an hour', 'verify_contacts', { ...PHONES, wait_seconds: 3_600 }],
    ['a job id that is a path', 'get_job', { job_id: '../balance' }],
    ['201 rows', 'get_results', { job_id: 'job_1', limit: 201 }],
    ['an unknown status', 'get_results', { job_id: 'job_1', status: 'good' }],
  ] as const)('refuses %s and sends nothing', async (_, tool, args) => {
    const { call, service } = await connect(100)
    const { isError, text } = await call(tool, args)
    expect([isError, service.requests]).toEqual([true, []])
    expect(text).toMatch(/contacts|countryCode|country|file|_seconds|job_id|limit|status/)
  })
})

/** The price of a contact rises after its quote. */
const risen = (session: () => Connected): FakeOptions['at'] => moment => {
  if (moment === 'quote') session().service.change({ priceMicros: 9 })
  return undefined
}

describe('the spending limit of a session', () => {
  it('counts the maximum price of a job that has not ended, then its charge', async () => {
    const { call, service } = await connect(15, { endAs: 'verifying' })
    const first = await call('verify_contacts', { ...PHONES, wait_seconds: 0 })
    expect(first.output).toMatchObject({ ended: false, rows: [], spending: { reservedMicros: 10 } })
    expect((await call('verify_contacts', PHONES)).isError).toBe(true)
    service.change({ priceMicros: 2 })
    const last = await call('verify_contacts', PHONES)
    expect(last.output.spending).toMatchObject({ spentMicros: 8, reservedMicros: 0 })
  })

  it('counts two requests at the same time', async () => {
    const session = await connect(100, { priceMicros: 60 })
    const contacts = ['+12127365000', '+12127365001'].map(contact => [contact])
    const outcomes = await Promise.all(contacts.map(async contact =>
      (await session.call('verify_contacts', { ...PHONES, contacts: contact })).isError))
    expect([outcomes, session.service.jobs.length]).toEqual([[false, true], 1])
    expect(await spendingOf(session)).toMatchObject({ spentMicros: 60 })
  })

  it.each([
    ['verify_contacts', PHONES], ['verify_file', { file: 'in.csv' }],
  ] as const)('cancels a job of %s whose price rose after the quote', async (tool, args) => {
    const session: Connected = await connect(12, { at: risen(() => session) })
    expect(await session.call(tool, args))
      .toMatchObject({ isError: true, text: expect.stringContaining('spending_limit') })
    expect(session.service.requests).toContain('POST /jobs/job_1/cancel')
  })

  it.each([
    ['verify_contacts', PHONES, { spentMicros: 18, reservedMicros: 0 }],
    // A file may be resumed.
    ['verify_file', { file: 'in.csv' }, { spentMicros: 0, reservedMicros: 18 }],
  ] as const)('counts all that a job of %s costs whose price rose and which ended at once',
    async (tool, args, figures) => {
      const ended = refusal(409, { code: 'job_not_cancellable', message: 'm' })
      const at: FakeOptions['at'] = moment => {
        if (moment === 'quote') session.service.change({ priceMicros: 9, at })
        return moment === 'cancel' ? ended : undefined
      }
      const session = await connect(12, { at })
      expect((await session.call(tool, args)).text).toMatch(/^spending_limit: /)
      await session.call('get_job', { job_id: 'job_1' })
      expect(await spendingOf(session))
        .toEqual({ limitMicros: 12, remainingMicros: 0, ...figures })
    })

  it('keeps the money of a request without a response, and repeats it as one job', async () => {
    const session = await connect(15, {
      at: (moment, times) =>
        moment === 'after POST' && times === 1 ? new TypeError('fetch failed') : undefined,
    })
    expect(await session.call('verify_contacts', PHONES))
      .toMatchObject({ isError: true, text: expect.stringContaining('unreachable') })
    expect(await spendingOf(session)).toMatchObject({ reservedMicros: 10 })
    expect((await session.call('verify_contacts', PHONES)).output)
      .toMatchObject({ ended: true, spending: { spentMicros: 10, reservedMicros: 0 } })
    expect(session.service.jobs).toHaveLength(1)
  })

  it('repeats a request without a response as one job beside the same request', async () => {
    const session = await connect(30, {
      at: (moment, times) =>
        moment === 'after POST' && times === 1 ? new TypeError('fetch failed') : undefined,
    })
    const both = await Promise.all([1, 2].map(() => session.call('verify_contacts', PHONES)))
    expect(both.map(({ isError }) => isError).toSorted()).toEqual([false, true])
    expect((await session.call('verify_contacts', PHONES)).output)
      .toMatchObject({ job: { id: 'job_1' }, spending: { spentMicros: 20, reservedMicros: 0 } })
    expect(session.service.jobs).toHaveLength(2)
  })

  it('keeps the money of a job that cannot be read, until its end', async () => {
    const away = refusal(500, { code: 'internal', message: 'm' })
    const session = await connect(100, { at: moment => moment === 'wait' ? away : undefined })
    expect((await session.call('verify_contacts', PHONES)).text).toBe('500 internal: m')
    session.service.change({})
    await session.call('get_job', { job_id: 'job_1' })
    expect((await session.call('get_job', { job_id: 'job_1' })).output.spending)
      .toMatchObject({ reservedMicros: 0, spentMicros: 10 })
  })

  it.each([
    ['POST', 402, 'insufficient_balance'], ['quote', 400, 'unknown_service'],
  ])('frees the money of a request whose %s was refused', async (name, status, code) => {
    const session = await connect(15, {
      at: moment => moment === name ? refusal(status, { code, message: 'm' }) : undefined,
    })
    expect((await session.call('verify_contacts', PHONES)).text).toContain(code)
    expect(await spendingOf(session)).toMatchObject({ reservedMicros: 0 })
  })
})

describe('a file of a session', () => {
  const cut = (moment: string) =>
    moment === 'wait' ? refusal(400, { code: 'cut', message: 'm' }) : undefined

  it('is verified beside itself, once', async () => {
    const { call, service } = await connect(100)
    const args = { file: 'in.csv', column: 'phone' }
    expect((await call('verify_file', args)).output).toMatchObject({
      ended: true,
      output,
      rows: 2,
      doneRows: 2,
      byStatus: { valid: 2 },
      jobs: ['job_1'],
      chargedMicros: 10,
      spending: { spentMicros: 10, reservedMicros: 0 },
    })
    expect(readFileSync(output, 'utf8')).toMatch(/^phone,e164,status,reason,duplicate_of\n/)
    expect((await call('verify_file', args)).output)
      .toMatchObject({ ended: true, chargedMicros: 10, spending: { spentMicros: 10 } })
    expect(service.jobs).toHaveLength(1)
  })

  it('is reported to a host that asks for progress, ever higher', async () => {
    const { host } = await connect(100)
    const reports: object[] = []
    await host.callTool({ name: 'verify_file', arguments: { file: 'in.csv' } }, {
      onprogress: progress => { reports.push(progress) },
    })
    expect(reports).toEqual([{ progress: 1, total: 2 }, { progress: 2, total: 2 }])
  })

  it('shows what waits, until when, and sends its deadline', async () => {
    const estimatedEndAt = '2026-08-11T10:05:00.000Z'
    const waiting = { rows: 1, reasons: { greylisted: 1 }, estimatedEndAt }
    const deadline = '2026-08-11T11:00:00.000Z'
    const verdicts = { valid: 1, invalid: 0, risky: 0, unknown: 0 }
    const reasons = { deliverable: 1 }
    const { call, host, service } = await connect(100, {
      endAs: 'verifying', waiting: { waiting, deadline, verdicts, reasons },
    })
    const args = { file: 'in.csv', deadline_seconds: 3_600 }
    await new Promise<object>((resolve, reject) => {
      host.callTool({ name: 'verify_file', arguments: args }, { onprogress: resolve })
        .catch(reject)
    })
    expect((await call('verify_file', { ...args, wait_seconds: 0 })).output)
      .toMatchObject({ ended: false, waitingRows: 1 })
    expect((await call('get_job', { job_id: 'job_1' })).output.job)
      .toMatchObject({ deadline, waiting, verdicts, reasons })
    service.change({})
    expect((await call('verify_file', args)).output).toMatchObject({ ended: true, waitingRows: 0 })
    expect((await call('get_job', { job_id: 'job_1' })).output.job)
      .toMatchObject({ deadline: null, waiting: null, verdicts: null, reasons: null })
    expect(service.jobs.map(({ body }) => body['deadline'])).toEqual([3_600])
  })

  it('goes on after the call has waited long enough', async () => {
    const { call, service } = await connect(100, { endAs: 'verifying' })
    const args = { file: 'in.csv', service: 'phone-validation' }
    const first = await call('verify_file', { ...args, wait_seconds: 0 })
    expect(first.output).toMatchObject({ ended: false, output, jobs: [] })
    expect((await call('verify_file', { ...args, column: 'phone', wait_seconds: 0 })).text)
      .toContain('other arguments')
    service.change({})
    expect((await call('verify_file', args)).output).toMatchObject({ ended: true, rows: 2 })
  })

  it('is refused as a whole when it may exceed the limit', async () => {
    const session = await connect(9)
    const { isError, text } = await session.call('verify_file', { file: 'in.csv' })
    expect([isError, session.service.jobs, existsSync(`${output}.progress.json`)])
      .toEqual([true, [], false])
    expect(text).toContain('spending_limit')
    expect(await spendingOf(session)).toMatchObject({ reservedMicros: 0 })
  })

  it('whose run fails keeps its money, until the same call resumes it and pays once', async () => {
    const session = await connect(100, { at: cut })
    expect((await session.call('verify_file', { file: 'in.csv' })).text).toBe('400 cut: m')
    expect((await session.call('verify_file', { file: 'in.csv', country: 'DE' })).text)
      .toContain('other options')
    expect(await spendingOf(session)).toMatchObject({ reservedMicros: 10, spentMicros: 0 })
    session.service.change({})
    expect((await session.call('verify_file', { file: 'in.csv' })).output).toMatchObject({
      ended: true, rows: 2, spending: { reservedMicros: 0, spentMicros: 10 },
    })
    expect(session.service.jobs).toHaveLength(1)
  })

  // Certificates are not retried.
  const cause = Object.assign(new Error('expired'), { code: 'CERT_HAS_EXPIRED' })
  const lost = (moment: string) =>
    moment === 'after POST' ? new TypeError('fetch failed', { cause }) : undefined
  it.each([
    ['a run that failed', cut], ['a request without a response', lost],
  ])('that is replaced after %s pays for both jobs within the limit', async (_, at) => {
    const [short, enough] = [await connect(15, { at }), await connect(25, { at })]
    for (const session of [short, enough]) {
      expect(await session.call('verify_file', { file: 'in.csv', replace: true }))
        .toMatchObject({ isError: true })
      expect(await spendingOf(session)).toMatchObject({ reservedMicros: 10 })
      session.service.change({})
    }
    const args = { file: 'in.csv', replace: true }
    expect((await short.call('verify_file', args)).text).toContain('spending_limit')
    expect((await enough.call('verify_file', args)).output)
      .toMatchObject({ ended: true, chargedMicros: 10, spending: { spentMicros: 20 } })
    expect([short, enough].map(({ service }) => service.jobs.length)).toEqual([1, 2])
  })

  it('is replaced only on demand', async () => {
    writeFileSync(output, 'precious')
    const { call } = await connect(100)
    const refused = await call('verify_file', { file: 'in.csv' })
    expect([refused.isError, readFileSync(output, 'utf8')]).toEqual([true, 'precious'])
    expect(refused.text).toContain('set replace to true')
    expect((await call('verify_file', { file: 'in.csv', replace: true })).isError).toBe(false)
    expect(readFileSync(output, 'utf8')).toMatch(/^phone,/)
  })

  it('is estimated free, without a job', async () => {
    const { estimate } = exampleOf(QuoteSchema, 1) as Required<QuoteBody>
    const session = await connect(0, { estimate })
    const args = { file: 'in.csv', options: ['line_status'] }
    const { output: answer } = await session.call('estimate_file', args)
    const { sampledContacts: _, ...shown } = estimate
    expect(answer).toMatchObject({
      service: 'phone-validation', rows: 2, quotedRows: 2, maxQuoteMicros: 10, estimate: shown,
    })
    expect(session.service.jobs).toEqual([])
    expect(session.service.quotes.at(-1)).toEqual({
      service: 'phone-validation',
      inputs: ['+12127365000', '+12127365001'],
      sample: true,
      options: ['line_status'],
    })
    expect(await spendingOf(session)).toMatchObject({ spentMicros: 0, reservedMicros: 0 })
    for (const file of ['../in.csv', '/etc/passwd', 'none.csv']) {
      expect((await session.call('estimate_file', { file })).isError).toBe(true)
    }
    writeFileSync(join(folder, 'two.csv'), 'a,b\n+12127365000,+12127365001\n')
    expect((await session.call('estimate_file', { file: 'two.csv' })).text)
      .toMatch(/Name the column with --column.+arguments of this tool/)
  })
})

describe('the spending of a session', () => {
  it('counts maximum prices until work ends, and then charges', () => {
    const spending = createSpending(100)
    const [first, second] = [spending.reserve(), spending.reserve()]
    first.cover(60)
    second.cover(40)
    // A reservation does not shrink before its work ends.
    second.cover(10)
    expect(spending.figures()).toEqual({
      limitMicros: 100, spentMicros: 0, reservedMicros: 100, remainingMicros: 0,
    })
    first.settle(10)
    first.settle(10)
    expect(spending.figures()).toEqual({
      limitMicros: 100, spentMicros: 10, reservedMicros: 40, remainingMicros: 50,
    })
    // Never more than was reserved.
    second.settle(99)
    expect(spending.figures()).toMatchObject({ spentMicros: 50, reservedMicros: 0 })
  })

  it('refuses a price above the rest, says why, and keeps what was covered', () => {
    const spending = createSpending(1_000_000)
    const [first, second] = [spending.reserve(), spending.reserve()]
    first.cover(700_000)
    second.cover(100_000)
    expect(() => { second.cover(400_001) }).toThrow('spending_limit: this may cost up to ' +
      '$0.400001, but only $0.20 of the limit of this session ($1.00) remains: $0.00 is spent ' +
      'and $0.80 reserved for work that has not ended. Verify fewer contacts, wait for running ' +
      'work to end, or ask the user to restart the server with a higher --max-spend.')
    second.cover(300_000)
    expect(spending.figures().reservedMicros).toBe(1_000_000)
  })
})

describe('the limit that --max-spend sets', () => {
  const serve = async (maxSpend: string) => {
    const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const env = { VERIFICATION_JOBS_URL: 'http://localhost/api/v1', VERIFICATION_JOBS_KEY: 'vj_1' }
    const code = await runProgram(['mcp', `--max-spend=${maxSpend}`], {
      input: input.end(), output, errors, env, onInterrupt: () => {},
    })
    return [code, String(errors.read())]
  }

  it.each([
    ['0', '$0.00'], ['5', '$5.00'], ['2.50', '$2.50'], ['0.000001', '$0.000001'],
    ['1000000', '$1,000,000.00'],
  ])('is exact for %s', async (maxSpend, amount) => {
    expect(await serve(maxSpend)).toEqual([0, `Serving MCP; this session may spend ${amount}.\n`])
  })

  it.each(['', '-1', '1.', '.5', '1e3', '0.0000001', '1000001', '12345678', '$5', '5,00', 'NaN'])(
    'is refused with the valid form for "%s"', async maxSpend => {
      expect(await serve(maxSpend)).toEqual([2, expect.stringContaining(
        `--max-spend ${maxSpend} is no amount of USD. Use a number like 5 or 2.50`)])
    })
})
