import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { createConsole, failureMessage } from '../../../services/client/terminal.ts'
import { identifyAccount, resolveConnection } from '../../../services/client/connection.ts'
import { runProgram } from '../../../services/client/program.ts'
import { detectService } from '../../../services/client/submit-command.ts'
import { verifiedText } from '../../../services/client/job-commands.ts'
import { newFolder } from '../../support/folder.ts'
import { createFakeService, type FakeOptions } from './fake-service.ts'

const folder = newFolder('command-line-')
afterAll(() => rmSync(folder, { recursive: true }))
const input = join(folder, 'in.csv')
const output = join(folder, 'out.csv')
beforeEach(() => {
  rmSync(output, { force: true })
  writeFileSync(input, 'phone\n+12127365000\n+12127365001\n')
})

const env = { VERIFICATION_JOBS_URL: 'http://localhost/api/v1', VERIFICATION_JOBS_KEY: 'vj_live_1' }

/** Runs a command against a service in memory; `answer` is the input of a terminal. */
async function run (
  words: readonly string[], { fake = {}, answer }: { fake?: FakeOptions, answer?: string } = {}
) {
  const service = createFakeService(fake)
  const isTTY = answer !== undefined
  const streams = {
    input: Object.assign(new PassThrough(), { isTTY }),
    output: new PassThrough(),
    errors: Object.assign(new PassThrough(), { isTTY }),
  }
  if (answer !== undefined) streams.input.write(`${answer}\n`)
  const actions: (() => void)[] = []
  const code = await runProgram(words, {
    ...streams,
    env,
    onInterrupt: action => { actions.push(action) },
    pollEveryMs: 0,
    clientOptions: { fetch: service.fetch(() => actions.forEach(action => action())), retries: 0 },
  })
  const textOf = (stream: PassThrough) => String(stream.read() ?? '')
  return { code, out: textOf(streams.output), errors: textOf(streams.errors), service }
}

const submit = ['submit', input, '--service', 'phone-validation', '-o', output]

describe('the command submit', () => {
  it('asks for confirmation, verifies and prints a summary', async () => {
    const { code, out, errors } = await run(submit, { answer: 'y' })
    expect([code, out]).toEqual([0,
      `2 rows: 2 valid\npaid $0.00001, released $0.00\nwritten to ${output}\n`])
    expect(errors).toContain('Verify for at most $0.00001? [y/N] ')
    expect(readFileSync(output, 'utf8').split('\n')[0])
      .toBe('phone,e164,status,reason,duplicate_of')
  })

  it('sends nothing when the user declines the price', async () => {
    const { code, errors, service } = await run(submit, { answer: '' })
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
      '--metadata', 'a=1', '--metadata', 'b=c=d', '--only', 'status'])
    expect(service.jobs[0]?.body)
      .toMatchObject({ countryCode: 'DE', forceFresh: true, metadata: { a: '1', b: 'c=d' } })
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
    [[...submit, '--parallel', '11'], '11 is not an integer from 1 to 10.'],
    [[...submit, '--key', 'secret'], "unknown option '--key'"],
    [submit, 'Confirm it with --yes'],
    [['fly'], "unknown command 'fly'"],
  ])('rejects %j as invalid arguments', async (words, why) => {
    const { code, errors, service } = await run(words)
    expect([code, errors, service.jobs]).toEqual([2, expect.stringContaining(why), []])
  })
})

describe('the other commands of verification-jobs', () => {
  it('print balance and services', async () => {
    expect(await run(['balance'], { fake: { availableMicros: 2_500_000 } }))
      .toMatchObject({ code: 0, out: expect.stringContaining('available $2.50\n') })
    expect((await run(['services', '--json'])).out).toContain('{"slug":"phone-validation"')
    expect((await run(['services'])).out)
      .toContain('whatsapp           phone   $0.000005 a row  (not for this key)\n')
  })

  it('verify contacts by their kind, and print a line for each', async () => {
    const phones = await run(['verify', '+12127365000', 'x'])
    expect([phones.code, phones.errors]).toEqual([0, ''])
    expect(phones.out).toBe(
      '+12127365000  valid  assigned_range\nx             valid  assigned_range\n' +
      'job_1: paid $0.00001\n')
    expect(phones.service.jobs[0]?.body)
      .toEqual({ service: 'phone-validation', inputs: ['+12127365000', 'x'], forceFresh: false })
    const email = await run(['verify', 'a@b.cd', '--force-fresh', '--country', 'de', '--json'])
    expect(email.service.jobs[0]?.body).toEqual({
      service: 'email-validation', inputs: ['a@b.cd'], forceFresh: true, countryCode: 'de',
    })
    expect(JSON.parse(email.out)).toMatchObject({ status: 'completed', results: [{ row: 1 }] })
    const other = await run(['verify', '+12127365000', '--service', 'whatsapp'])
    expect(other.service.jobs[0]?.body['service']).toBe('whatsapp')
  })

  it('print usage and transactions', async () => {
    const usage = await run(['usage', '--from', '2026-08-01', '--group-by', 'key'])
    expect([usage.out, usage.service.requests]).toEqual([
      'day,jobs\r\n2026-08-11,2\n', ['GET /usage?from=2026-08-01&group_by=key&format=csv'],
    ])
    expect((await run(['usage', '--json'])).out).toBe('{"data":[]}\n')
    const { out, service } = await run(['transactions', '--limit', '5'])
    expect([out, service.requests]).toEqual([
      '2026-08-11T10:00:00.000Z settle           $0.004  available         $0.096  job_7\n',
      ['GET /transactions?limit=5'],
    ])
  })

  it('erase a job, with its cached verdicts on request', async () => {
    const { code, out, service } = await run(['erase', 'job_7', '--cache'])
    expect([code, out, service.requests]).toEqual([
      0, 'job_7  erased at 2026-08-11T10:00:00.000Z\n', ['DELETE /jobs/job_7?cache=true'],
    ])
    expect((await run(['erase', 'job_8'])).code).toBe(1)
  })

  it('report failures as text and as JSON', async () => {
    const { code, out, errors } = await run(['status', 'job_9', '--json'])
    expect([code, errors]).toEqual([1, 'verification-jobs: 404 job_not_found: none\n'])
    expect(JSON.parse(out)).toEqual({
      error: { code: 'job_not_found', message: '404 job_not_found: none' },
    })
  })

  it.each([
    '', 'submit', 'verify', 'status', 'results', 'balance', 'services', 'cancel', 'erase', 'usage',
    'transactions',
  ])(
    'have an example in %s --help', async name => {
      const { code, out } = await run([...name === '' ? [] : [name], '--help'])
      expect([code, out]).toEqual([0, expect.stringMatching(/Examples?:\n {2}verification-jobs /)])
    })
})

describe('the connection of a command', () => {
  const nowhere = { data: join(folder, 'none') }
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, 'vj_test_2\n')
  writeFileSync(join(folder, 'stack.json'),
    '{"baseUrl":"http://127.0.0.1:1/api/v1","keys":{"live":"vj_live_3"}}')

  it('comes from options, then the environment, then a local stack', () => {
    expect(resolveConnection({ ...nowhere, baseUrl: 'https://there/', keyFile }, env)).toEqual({
      baseUrl: 'https://there/api/v1', apiKey: 'vj_test_2', isLocalStack: false,
    })
    expect(resolveConnection(nowhere, env)).toEqual({
      baseUrl: 'http://localhost/api/v1', apiKey: 'vj_live_1', isLocalStack: false,
    })
    const local = { baseUrl: 'http://127.0.0.1:1/api/v1', isLocalStack: true }
    expect(resolveConnection({ data: folder }, {})).toEqual({ ...local, apiKey: 'vj_live_3' })
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
    expect(() => resolveConnection({ ...nowhere, ...flags }, { ...variables })).toThrow(why)
  })

  it('is identified by a digest of the key', () => {
    const account = identifyAccount({
      baseUrl: 'http://there', apiKey: 'secret', isLocalStack: false,
    })
    expect(account).toEqual({ baseUrl: 'http://there', key: '2bb80d537b1da3e3' })
  })
})

describe('the output of a command', () => {
  it('explains failures of the environment, but not bugs', () => {
    expect(failureMessage(new TypeError('fetch failed'))).toContain('is unreachable')
    expect(failureMessage(Object.assign(new Error('full'), { code: 'ENOSPC', path: '/a' })))
      .toBe('/a: full')
    expect(failureMessage(new Error('x'))).toBeUndefined()
  })

  it('shows a verdict without a reason', () => {
    const results = [{ input: 'a@b.cd', status: 'unknown', reason: null }]
    expect(verifiedText({ id: 'job_1', chargedMicros: 0, results } as never))
      .toBe('a@b.cd  unknown\njob_1: paid $0.00')
  })

  it('separates messages from results', async () => {
    const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const streams = { input, output, errors }
    const screen = createConsole(streams, { quiet: false })
    screen.say('a')
    screen.print('b')
    expect([String(streams.errors.read()), String(streams.output.read()), screen.confirm])
      .toEqual(['a\n', 'b\n', undefined])
  })
})

const detected = (text: string, column?: string) => {
  writeFileSync(input, text)
  return detectService(input, { column })
}

describe('the default service of submit', () => {
  it.each<[string, string | undefined, string]>([
    ['\ufeffFirma;Telefon\r\n"A;\r\nB";030 901820\r\n', undefined, 'phone-validation'],
    ['name,address\nA,a@b.org\n', undefined, 'email-validation'],
    ['Mobil,E-Mail\n+12127365000,a@b.org\n', 'e-mail', 'email-validation'],
  ])('of %j matches the contacts', async (text, column, service) => {
    expect(await detected(text, column)).toBe(service)
  })

  it.each<[string, string]>([
    ['Mobil,E-Mail\n+12127365000,a@b.org\n', 'columns of phone numbers and of e-mail addresses'],
    ['a,b\nx,y\n', 'No column of the file looks like phone numbers or e-mail addresses.'],
  ])('of %j is ambiguous', async (text, why) => {
    await expect(detected(text)).rejects.toThrow(why)
  })
})
