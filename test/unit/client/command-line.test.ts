import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { accountIn, connectionOf } from '../../../services/client/connection.ts'
import { createConsole } from '../../../services/client/console.ts'
import { failureText } from '../../../services/client/failure-text.ts'
import { runProgram } from '../../../services/client/run-program.ts'
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

/** One command against a service in memory; `answer` is typed where there is a terminal. */
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
  it('asks, verifies and sums up', async () => {
    const { code, out, errors } = await run(submit, { answer: 'y' })
    expect([code, out]).toEqual([0,
      `2 rows: 2 valid\npaid $0.00001, released $0.00\nwritten to ${output}\n`])
    expect(errors).toContain('Verify for at most $0.00001? [y/N] ')
    expect(readFileSync(output, 'utf8').split('\n')[0])
      .toBe('phone,e164,status,reason,duplicate_of')
  })

  it('does nothing when that is declined', async () => {
    const { code, errors, service } = await run(submit, { answer: '' })
    expect([code, service.jobs]).toEqual([1, []])
    expect(errors).toContain('verification-jobs: Nothing more was sent')
  })

  it('says nothing beside JSON, and nothing at all when quiet', async () => {
    const json = await run([...submit, '--json', '--yes'])
    expect([json.errors, JSON.parse(json.out)])
      .toEqual(['', expect.objectContaining({ rows: 2, completed: true })])
    rmSync(output)
    expect(await run([...submit, '-q', '-y'])).toMatchObject({ code: 0, out: '', errors: '' })
  })

  it('passes its options on', async () => {
    const { service } = await run([...submit, '-y', '-q', '--country', 'de', '--force-fresh',
      '--metadata', 'a=1', '--metadata', 'b=c=d', '--only', 'status'])
    expect(service.jobs[0]?.body)
      .toMatchObject({ countryCode: 'DE', forceFresh: true, metadata: { a: '1', b: 'c=d' } })
    expect(readFileSync(output, 'utf8')).toMatch(/^phone,status\n/)
  })

  it('fails when a job does, having written what there is', async () => {
    const { code, errors } = await run([...submit, '-y', '-q'], { fake: { endAs: 'cancelled' } })
    expect([code, errors]).toEqual([1, 'verification-jobs: job_1 is cancelled: rows that were ' +
      'not checked are unknown in the output, and free.\n'])
    expect(readFileSync(output, 'utf8')).toContain('valid')
  })

  it('ends at Ctrl-C with how to go on', async () => {
    const at: FakeOptions['at'] = moment => moment === 'wait' ? new Error('Ctrl-C') : undefined
    const { code, errors } = await run([...submit, '-y', '-q'], { fake: { at } })
    expect(code).toBe(130)
    expect(errors).toContain('On the service these jobs go on and are paid: job_1.')
    expect((await run([...submit, '--restart', '-y'])).code).toBe(0)
  })

  it.each<[readonly string[], string]>([
    [['submit', input], 'Verified by phone-validation; --service takes another.'],
    [['submit', input, '--column', 'mail'], 'has no column mail'],
    [['submit', input, '--service', 'fortune-telling', '-o', output], 'Allowed choices are phone'],
    [[...submit, '--country', 'XX'], 'two-letter code'],
    [[...submit, '--metadata', 'a'], 'key=value'],
    [[...submit, '--delimiter', '"'], 'one ASCII character'],
    [[...submit, '--parallel', '11'], '11 is no whole number from 1 to 10.'],
    [[...submit, '--key', 'secret'], "unknown option '--key'"],
    [submit, 'agree to it with --yes'],
    [['fly'], "unknown command 'fly'"],
  ])('%j is wrongly called', async (words, why) => {
    const { code, errors, service } = await run(words)
    expect([code, errors, service.jobs]).toEqual([2, expect.stringContaining(why), []])
  })
})

describe('the other commands', () => {
  it('show what there is', async () => {
    expect(await run(['balance'], { fake: { availableMicros: 2_500_000 } }))
      .toMatchObject({ code: 0, out: expect.stringContaining('available $2.50\n') })
    expect((await run(['services', '--json'])).out).toContain('{"slug":"phone-validation"')
    expect((await run(['services'])).out)
      .toContain('whatsapp           phone   $0.000005 a row  (not for this key)\n')
  })

  it('tell failures as people and as programs read them', async () => {
    const { code, out, errors } = await run(['status', 'job_9', '--json'])
    expect([code, errors]).toEqual([1, 'verification-jobs: 404 job_not_found: none\n'])
    expect(JSON.parse(out)).toEqual({
      error: { code: 'job_not_found', message: '404 job_not_found: none' },
    })
  })

  it.each(['', 'submit', 'status', 'results', 'balance', 'services', 'cancel'])(
    '%s --help has an example', async name => {
      const { code, out } = await run([...name === '' ? [] : [name], '--help'])
      expect([code, out]).toEqual([0, expect.stringMatching(/Examples?:\n {2}verification-jobs /)])
    })
})

describe('the connection', () => {
  const nowhere = { data: join(folder, 'none') }
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, 'vj_test_2\n')
  writeFileSync(join(folder, 'stack.json'),
    '{"baseUrl":"http://127.0.0.1:1/api/v1","keys":{"live":"vj_live_3"}}')

  it('comes from options, then the environment, then a local stack', () => {
    expect(connectionOf({ ...nowhere, baseUrl: 'https://there/', keyFile }, env)).toEqual({
      baseUrl: 'https://there/api/v1', apiKey: 'vj_test_2', isLocalStack: false,
    })
    expect(connectionOf(nowhere, env)).toEqual({
      baseUrl: 'http://localhost/api/v1', apiKey: 'vj_live_1', isLocalStack: false,
    })
    expect(connectionOf({ data: folder }, {})).toEqual({
      baseUrl: 'http://127.0.0.1:1/api/v1', apiKey: 'vj_live_3', isLocalStack: true,
    })
  })

  it.each<[object, object, string]>([
    [{}, {}, 'Start one with "npm start"'],
    [{ baseUrl: 'https://there' }, {}, 'an address, but no key'],
    [{ keyFile }, {}, 'a key, but no address'],
    [{ baseUrl: 'there', keyFile }, {}, 'there is no address like'],
    [{ baseUrl: 'http://there', keyFile }, {}, 'would send the key unencrypted'],
    [{ keyFile: '/none' }, env, "--key-file /none can't be read"],
    [{}, { ...env, VERIFICATION_JOBS_KEY: 'a b' }, 'The key is not one'],
  ])('%j is refused', (flags, around, why) => {
    expect(() => connectionOf({ ...nowhere, ...flags }, { ...around })).toThrow(why)
  })

  it('leaves only a digest of the key behind', () => {
    const account = accountIn({ baseUrl: 'http://there', apiKey: 'secret', isLocalStack: false })
    expect(account).toEqual({ baseUrl: 'http://there', key: '2bb80d537b1da3e3' })
  })
})

describe('what is told', () => {
  it('of a failure says what to do, of a mistake nothing', () => {
    expect(failureText(new TypeError('fetch failed'))).toContain('cannot be reached')
    expect(failureText(Object.assign(new Error('full'), { code: 'ENOSPC', path: '/a' })))
      .toBe('/a: full')
    expect(failureText(new Error('x'))).toBeUndefined()
  })

  it('goes beside the answer, and stays readable around the progress', async () => {
    const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const streams = { input, output, errors }
    const screen = createConsole(streams, { quiet: false })
    screen.say('a')
    screen.print('b')
    expect([String(streams.errors.read()), String(streams.output.read()), screen.ask])
      .toEqual(['a\n', 'b\n', undefined])
  })
})
