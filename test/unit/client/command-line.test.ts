import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { UsageSchema } from '../../../schemas/api/account.ts'
import { openConnection } from '../../../services/client/connection.ts'
import { runProgram } from '../../../services/client/program.ts'
import {
  count, counted, createConsole, createProgressLine, duration, failureMessage, money,
} from '../../../services/client/terminal.ts'
import { newFolder } from '../../support/folder.ts'
import { createFakeService, exampleOf, type FakeOptions, verdictOf } from './fake-service.ts'

const folder = newFolder('command-line-')
const input = join(folder, 'in.csv')
const output = join(folder, 'out.csv')
beforeEach(() => {
  rmSync(output, { force: true })
  writeFileSync(input, 'phone\n+12127365000\n+12127365001\n')
})

const env = { VERIFICATION_JOBS_URL: 'http://localhost/api/v1', VERIFICATION_JOBS_KEY: 'vj_live_1' }

/** Runs a command against a service in memory; `answer` is typed at a terminal, null ends it. */
async function run (
  words: readonly string[],
  { fake = {}, answer, service = createFakeService(fake) }: {
    fake?: FakeOptions, answer?: string | null, service?: ReturnType<typeof createFakeService>,
  } = {}
) {
  const isTTY = answer !== undefined
  const streams = {
    input: Object.assign(new PassThrough(), { isTTY }),
    output: new PassThrough(),
    errors: Object.assign(new PassThrough(), { isTTY }),
  }
  if (answer === null) streams.input.end()
  else if (answer !== undefined) streams.input.write(`${answer}\n`)
  const actions: (() => void)[] = []
  const code = await runProgram(words, {
    ...streams,
    env,
    onInterrupt: action => { actions.push(action) },
    pollEveryMs: 0,
    clientOptions: { fetch: service.fetch(() => actions.forEach(action => action())), retries: 0 },
  })
  const read = (stream: PassThrough) => String(stream.read() ?? '')
  return { code, out: read(streams.output), errors: read(streams.errors), service }
}

const submit = ['submit', input, '--service', 'phone-validation', '-o', output]

describe('the command submit', () => {
  it('asks for confirmation, verifies and prints a summary', async () => {
    const { code, out, errors } = await run(submit, { answer: 'y' })
    expect([code, out]).toEqual([0,
      `2 rows: 2 valid\npaid $0.00001, released $0.00\nwritten to ${output}\n`])
    expect(errors).toContain('Verify for at most $0.00001? [y/N] ')
    expect(readFileSync(output, 'utf8')).toMatch(/^phone,e164,status,reason,duplicate_of\n/)
  })

  it.each(['', null])('sends nothing when the user declines the price: %j', async answer => {
    const { code, errors, service } = await run(submit, { answer })
    expect([code, service.jobs]).toEqual([1, []])
    expect(errors).toContain('verification-jobs: You declined the price. No further job was sent')
  })

  it('prints only JSON with --json, and nothing with --quiet', async () => {
    const json = await run([...submit, '--json', '--yes'])
    expect([json.errors, JSON.parse(json.out)])
      .toEqual(['', expect.objectContaining({ rows: 2, completed: true })])
    rmSync(output)
    expect(await run([...submit, '-q', '-y'])).toMatchObject({ code: 0, out: '', errors: '' })
  })

  it('applies its options', async () => {
    const { service } = await run([...submit, '-y', '-q', '--country', 'de', '--force-fresh',
      '--metadata', 'a=1', '--metadata', 'b=c=d', '--only', 'status',
      '--deadline', '90m'])
    expect(service.jobs[0]?.body)
      .toMatchObject({
        countryCode: 'DE', forceFresh: true, metadata: { a: '1', b: 'c=d' }, deadline: 5_400,
      })
    expect(readFileSync(output, 'utf8')).toMatch(/^phone,status\n/)
  })

  it('writes the output and fails when a job was cancelled', async () => {
    const { code, errors } = await run([...submit, '-y', '-q'], { fake: { endAs: 'cancelled' } })
    expect([code, errors]).toEqual([1, 'verification-jobs: job_1 is cancelled. Rows that were ' +
      'not checked are unknown in the output, and free.\n'])
    expect(readFileSync(output, 'utf8')).toContain('valid')
  })

  it('explains at Ctrl-C how to resume', async () => {
    const at: FakeOptions['at'] = moment => moment === 'wait' ? new Error('Ctrl-C') : undefined
    const { code, errors } = await run([...submit, '-y', '-q'], { fake: { at } })
    expect(code).toBe(130)
    expect(errors).toContain('These jobs continue and will be charged: job_1.')
    expect((await run([...submit, '--restart', '-y'])).code).toBe(0)
  })

  it.each<[readonly string[], string]>([
    [['submit', input], 'Service: phone-validation (change it with --service).'],
    [['submit', input, '--column', 'mail'], 'has no column mail'],
    [['submit', input, '--service', 'fortune-telling', '-o', output], 'Allowed choices are phone'],
    [[...submit, '--country', 'XX'], 'two-letter code'],
    [[...submit, '--metadata', 'a'], 'key=value'],
    [[...submit, '--delimiter', '"'], 'one ASCII character'],
    ...['59s', '49h', '0m', '60', '6 h', '1.5h', ''].map((time): [readonly string[], string] =>
      [[...submit, '--deadline', time], `--deadline ${time} is not a time from 1m to 48h.`]),
    [[...submit, '--parallel', '11'], '11 is not an integer from 1 to 10.'],
    [[...submit, '--key', 'secret'], "unknown option '--key'"],
    [submit, 'Confirm it with --yes'],
    [['fly'], "unknown command 'fly'"],
    [['results', 'job_1', '--status', 'valid,vaild'],
      '--status: there is no "vaild". The values are: valid, invalid,'],
    [['results', 'job_1', '--country', 'UK'], '--country: there is no "UK". The values are: '],
    [['results', 'job_1', '--format', 'xml'],
      'Allowed choices are csv, json, jsonl, xlsx, parquet'],
    [['results', 'job_1', '--delimiter', ';'], 'Allowed choices are comma, semicolon, tab, pipe, '],
    [['results', 'job_1', '--format', 'json', '--delimiter', 'tab'],
      '--delimiter tab is for CSV, and --format is json. Leave one of them out.'],
    [['results', 'job_1', '--format', 'xlsx', '--safe', 'spreadsheet', '-o', output],
      '--safe spreadsheet is for CSV, and --format is xlsx. Leave one of them out.'],
    [['results', 'job_1', '--format', 'xlsx'],
      '--format xlsx is not text, so it needs a file: -o '],
    [['results', 'job_1', '--format', 'parquet'], '--format parquet is not text'],
    [['results', 'job_1', '--columns', ''], '--columns: there is no "". The values are: row, '],
  ])('rejects %j as invalid arguments', async (words, why) => {
    const { code, errors, service } = await run(words)
    expect([code, errors, service.jobs]).toEqual([2, expect.stringContaining(why), []])
  })
})

describe('another command', () => {
  it.each<[words: readonly string[], request: string, out: string]>([
    [['balance'], 'GET /balance', 'available $1,000.00\nreserved  $0.00\ntotal     $1,000.00\n'],
    [['usage', '--from', '2026-08-01', '--group-by', 'key'],
      'GET /usage?from=2026-08-01&group_by=key&format=csv', 'day,jobs\r\n2026-08-11,2\n'],
    [['usage', '--json'], 'GET /usage?group_by=day&format=json',
      `${JSON.stringify(exampleOf(UsageSchema))}\n`],
    [['transactions', '--limit', '5'], 'GET /transactions?limit=5',
      '2026-08-11T10:00:02.500Z settle           $0.004  available         $0.996  ' +
      'job_01jd3v8zj7m5n2k4q6r8s0t1w3\n'],
    [['erase', 'job_7', '--cache'], 'DELETE /jobs/job_7?cache=true',
      'job_7  erased at 2026-08-11T10:00:00.000Z\n'],
    [['services'], 'GET /services', 'phone-validation   phone   $0.000005 a row\n' +
      'email-validation   email   $0.000005 a row\n' +
      'whatsapp           phone   $0.000005 a row  (not for this key)\n'],
  ])('%j makes a request and prints what it got', async (words, request, out) => {
    const { service, ...ended } = await run(words)
    expect([ended, service.requests]).toEqual([{ code: 0, out, errors: '' }, [request]])
  })

  it.each<[words: readonly string[], body: object, out: string]>([
    [['+12127365000', 'x'], { service: 'phone-validation', inputs: ['+12127365000', 'x'] },
      '+12127365000  valid\nx             valid\njob_1: paid $0.00001\n'],
    [['a@b.cd', '--force-fresh', '--country', 'de'], {
      service: 'email-validation', inputs: ['a@b.cd'], forceFresh: true, countryCode: 'de',
    }, 'a@b.cd  valid\njob_1: paid $0.000005\n'],
    [['+1', '--service', 'whatsapp'], { service: 'whatsapp', inputs: ['+1'] },
      '+1  valid\njob_1: paid $0.000005\n'],
  ])('verify %j prints a line for each contact', async (words, body, out) => {
    const verified = await run(['verify', ...words])
    expect(verified).toMatchObject({ code: 0, out, errors: '' })
    expect(verified.service.jobs[0]?.body).toEqual({ forceFresh: false, ...body })
    const { out: json } = await run(['verify', ...words, '--json'])
    const chargedMicros = 5 * verified.service.jobs[0]!.inputs.length
    expect(JSON.parse(json)).toMatchObject({ status: 'completed', chargedMicros })
  })

  it('shows reasons, the state of a job, and its results', async () => {
    const service = createFakeService({ reason: 'assigned_range' })
    expect((await run(['verify', '+1'], { service })).out)
      .toBe('+1  valid  assigned_range\njob_1: paid $0.000005\n')
    for (const command of ['status', 'cancel']) {
      expect((await run([command, 'job_1'], { service })).out).toBe('job_1  completed, 100 %\n' +
        'phone-validation, 1 rows: 1 with a verdict, 0 without\npaid $0.000005, released $0.00\n')
    }
    expect(service.requests.slice(1)).toEqual(['GET /jobs/job_1', 'POST /jobs/job_1/cancel'])
    service.jobs[0]!.polls = 0
    expect((await run(['status', 'job_1'], { service })).out)
      .toMatch(/50 %\n.*\nat most \$0.000005/)
    const estimatedEndAt = '2026-08-11T10:05:00.000Z'
    const waiting = { rows: 3, reasons: { greylisted: 2, timeout: 1 }, estimatedEndAt }
    const verdicts = { valid: 1, invalid: 1_200, risky: 0, unknown: 0 }
    const reasons = { assigned_range: 2, unassigned_range: 1_199 }
    const fields = { waiting, deadline: null, verdicts, reasons }
    service.change({ reason: 'assigned_range', waiting: fields })
    service.jobs[0]!.polls = 0
    const { out: text } = await run(['status', 'job_1'], { service })
    expect(text).toMatch(/\n1,200 invalid, 1 valid\nReasons: 1,199 unassigned_range, 2 assigned_r/)
    expect(text).toMatch(
      /\n3 rows waiting until about 2026-08-11 10:05 UTC: 2 greylisted, 1 timeout\nat most /)
    service.change({ reason: 'assigned_range' })
    service.jobs[0]!.polls = 2
    expect((await run(['results', 'job_1'], { service })).out)
      .toBe('row,input,e164,status,reason,duplicate_of\r\n' +
        `1,"+1",${verdictOf('+1')},valid,"assigned_range",\r\n`)
    const { out } = await run(['results', 'job_1', '-o', output, '--json'], { service })
    expect(JSON.parse(out)).toEqual({ id: 'job_1', output })
  })

  it('selects rows and columns of the results', async () => {
    const { service } = await run(['results', 'job_1', '--status', 'valid, risky', '--reason',
      'deliverable', '--source', 'live', '--line-type', 'mobile,voip', '--country', 'us,DE',
      '--columns', 'e164,row', '--drop-duplicates', '--safe', 'spreadsheet'])
    expect(service.requests.map(decodeURIComponent)).toEqual(['GET /jobs/job_1/results?format=csv' +
      '&status=valid,risky&reason=deliverable&source=live&line_type=mobile,voip&country=US,DE' +
      '&columns=e164,row&duplicates=drop&safe=spreadsheet'])
    const more = await run(['results', 'job_1', '--drop-duplicates', '--one-per-mailbox'])
    expect(more.service.requests).toEqual(['GET /jobs/job_1/results?format=csv&duplicates=mailbox'])
  })

  it('requests the format and the delimiter of the results', async () => {
    const service = createFakeService({})
    await run(['verify', '+1', '+2'], { service })
    const request = async (...words: readonly string[]) => {
      const { code, out, errors } = await run(['results', 'job_1', ...words], { service })
      return [code, errors, service.requests.at(-1)?.replace(/.*\/results/, ''), out]
    }
    expect(await request('--delimiter', 'original'))
      .toEqual([0, '', '?format=csv&delimiter=original', expect.stringContaining('row,input')])
    for (const format of ['xlsx', 'parquet']) {
      expect(await request('--format', format, '--status', 'valid', '-o', output))
        .toEqual([0, '', `?format=${format}&status=valid`, ''])
      expect(readFileSync(output, 'utf8')).toContain('row,input')
    }
    const rows = ['+1', '+2'].map((input, index) =>
      ({ row: index + 1, input, e164: verdictOf(input), status: 'valid', reason: null }))
    const [first, second] = rows.map(row => JSON.stringify(row))
    expect(await request('--format', 'jsonl', '--columns', 'row'))
      .toEqual([0, '', '?format=jsonl&columns=row', `${first}\n${second}\n`])
    const [, , query, text] = await request('--format', 'json', '--status', 'valid')
    expect([query, text]).toEqual(['?format=jsonl&status=valid', `[\n${first},\n${second}\n]\n`])
  })

  it('reports a failure as text and as JSON', async () => {
    const { code, out, errors } = await run(['status', 'job_9', '--json'])
    expect([code, errors]).toEqual([1, 'verification-jobs: 404 job_not_found: none\n'])
    expect(JSON.parse(out)).toEqual({
      error: { code: 'job_not_found', message: '404 job_not_found: none' },
    })
  })

  it.each([
    '', 'submit', 'verify', 'status', 'cancel', 'erase', 'results', 'balance', 'usage',
    'transactions', 'services', 'mcp',
  ])('has an example in %s --help', async name => {
    const { code, out } = await run([...name === '' ? [] : [name], '--help'])
    expect([code, out]).toEqual([0, expect.stringMatching(/Example(s|.*)?:\n {2}\S/)])
  })
})

describe('the connection of a command', () => {
  const nowhere = { data: join(folder, 'none') }
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, 'vj_test_2\n')
  writeFileSync(join(folder, 'stack.json'),
    '{"baseUrl":"http://127.0.0.1:1/api/v1","keys":{"live":"vj_live_3"}}')

  function open (flags: object, variables: object) {
    const said: string[] = []
    const streams = {
      input: new PassThrough(), output: new PassThrough(), errors: new PassThrough(),
    }
    const context = { ...streams, env: { ...variables }, onInterrupt: () => {} }
    const { account, ...connection } =
      openConnection({ ...nowhere, ...flags }, context, line => { said.push(line) })
    return { connection, account, said }
  }

  it.each<[flags: object, variables: object, connection: object]>([
    [{ baseUrl: 'https://there/', keyFile }, env,
      { baseUrl: 'https://there/api/v1', apiKey: 'vj_test_2', isLocalStack: false }],
    [{}, env, { baseUrl: 'http://localhost/api/v1', apiKey: 'vj_live_1', isLocalStack: false }],
    [{ data: folder }, {},
      { baseUrl: 'http://127.0.0.1:1/api/v1', apiKey: 'vj_live_3', isLocalStack: true }],
  ])('with %j and %j comes from options, the environment, a local stack', (...row) => {
    const [flags, variables, connection] = row
    const opened = open(flags, variables)
    expect(opened.connection).toEqual(connection)
    expect(opened.said).toEqual('data' in flags
      ? [`Using the local stack of ${folder}/stack.json at http://127.0.0.1:1/api/v1.`]
      : [])
  })

  it('is identified by a digest of the key', () => {
    const { account } = open({}, { ...env, VERIFICATION_JOBS_KEY: 'secret' })
    expect(account).toEqual({ baseUrl: 'http://localhost/api/v1', key: '2bb80d537b1da3e3' })
  })

  it.each<[object, object, string | RegExp]>([
    [{}, {}, 'Start one with "npm start"'],
    [{ baseUrl: 'https://there' }, {}, 'The API key is missing'],
    [{ data: folder, keyFile }, {}, 'The address is missing for the API key of --key-file'],
    [{ data: folder }, { VERIFICATION_JOBS_KEY: 'vj_live_1' }, 'unset VERIFICATION_JOBS_KEY'],
    [{ baseUrl: 'http://me:s3cret@there', keyFile }, {}, /^http:..there would send the key/],
    [{ baseUrl: 'me:s3cret@there', keyFile }, {}, /^The address there is not a URL like/],
    [{ baseUrl: 'there', keyFile }, {}, 'The address there is not a URL like'],
    [{ baseUrl: 'http://there', keyFile }, {}, 'would send the key unencrypted'],
    [{ keyFile: '/none' }, env, 'Cannot read --key-file /none'],
    [{}, { ...env, VERIFICATION_JOBS_KEY: 'a b' }, 'The API key is invalid'],
  ])('is rejected for %j', (flags, variables, why) => {
    expect(() => open(flags, variables)).toThrow(why)
  })
})

describe('the output of a command', () => {
  afterEach(() => { vi.useRealTimers() })

  it('formats amounts for people', () => {
    expect([money(1_500_000), money(5), money(180_866_000), count(12_345.4)])
      .toEqual(['$1.50', '$0.000005', '$180.866', '12,345'])
    expect([counted(1, 'job'), counted(2_000, 'row')]).toEqual(['1 job', '2,000 rows'])
    expect([7.4, 59.6, 200, 7_500].map(duration))
      .toEqual(['7 s', '1 min 0 s', '3 min 20 s', '2 h 5 min'])
  })

  it('explains failures of the environment, but not bugs', () => {
    expect(failureMessage(new TypeError('fetch failed'))).toContain('is unreachable')
    expect(failureMessage(Object.assign(new Error('full'), { code: 'ENOSPC', path: '/a' })))
      .toBe('/a: full')
    expect(failureMessage(new Error('x'))).toBeUndefined()
  })

  it('separates messages and progress from results', () => {
    vi.useFakeTimers()
    const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const screen = createConsole({ input, output, errors }, { quiet: false })
    const show = (change: object) => {
      const progress = { done: 600, rows: 1_000, before: 200, jobs: 1, endedJobs: 0, ...change }
      screen.progress(progress)
      vi.advanceTimersByTime(2_000)
      screen.progress(progress)
      screen.end()
    }
    screen.say('a')
    screen.print('b')
    const waiting = { rows: 400, untilMs: Date.parse('2026-08-11T10:05:00.000Z') }
    for (const change of [
      {}, { jobs: 3, endedJobs: 1, done: 250 }, { done: 1_000, before: 0 }, { waiting },
    ]) show(change)
    expect([String(output.read()), screen.confirm]).toEqual(['b\n', undefined])
    expect(String(errors.read()).split('\n')).toEqual([
      'a',
      '[##############..........] 60 %  600 of 1,000 rows, 200 rows/s, about 2 s left',
      '[######..................] 25 %  250 of 1,000 rows, 1 of 3 jobs, 25 rows/s',
      `[${'#'.repeat(24)}] 100 %  1,000 of 1,000 rows, 500 rows/s`,
      '[##############..........] 60 %  600 of 1,000 rows, 200 rows/s, 400 wait until about ' +
        '2026-08-11 10:05 UTC',
      '',
    ])
  })

  it.each<[isTTY: boolean, written: readonly string[]]>([
    [false, ['1000 after 1 s\n', '2100 after 2.1 s\n']],
    [true, [
      '\r\u001b[K1000 after 1 s', '\r\u001b[K1500 after 1.5 s', '\r\u001b[K2100 after 2.1 s', '\n',
    ]],
  ])('shows progress in place on a terminal (%s), once a second elsewhere', (isTTY, expected) => {
    const written: string[] = []
    let nowMs = 0
    const line = createProgressLine<number>({ write: text => written.push(text), isTTY }, {
      textOf: (number, seconds) => `${number} after ${seconds} s`, now: () => nowMs,
    })
    for (nowMs of [10, 1_000, 1_500, 2_100]) line.show(nowMs)
    line.end()
    line.end()
    expect(written).toEqual(expected)
  })
})
