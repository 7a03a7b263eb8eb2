import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Command } from 'commander'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ConfigError } from '../../../../services/runtime/platform/config.ts'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { markFailed } from '../../../../services/runtime/platform/failed-store.ts'
import {
  explanationOf, runCommand, UsageError,
} from '../../../../services/runtime/platform/run-command.ts'

const refused = (address: string) =>
  Object.assign(new Error(`connect ECONNREFUSED ${address}`), { code: 'ECONNREFUSED' })
const dependency = (address: string) => `A dependency failed: connect ECONNREFUSED ${address}. ` +
  'Check the addresses in the environment; for a local stack run "npm run up".'

const late = (message: string, store: string) => {
  const error = new Error(message)
  markFailed(error, store)
  return error
}
const wait = (store: string, reason: string) => `${store} did not answer in time (${reason}). It ` +
  'may be overloaded: run the command again later, or with less load. Only if it is stopped, ' +
  'start it; for a local stack run "npm run up".'

describe('the explanation of a failed command', () => {
  it.each([
    [new UsageError('Give --name.'), 'Give --name.'],
    [new RangeError('At most 5.'), 'At most 5.'],
    [new InfrastructureError('the wallet is locked'), 'the wallet is locked'],
    [
      new InfrastructureError('topic t could not be read', { cause: refused('127.0.0.1:1') }),
      'topic t could not be read: connect ECONNREFUSED 127.0.0.1:1',
    ],
    [new TypeError('fetch failed', { cause: refused('::1:1') }), dependency('::1:1')],
    [new AggregateError([refused('127.0.0.1:1')], ''), dependency('127.0.0.1:1')],
  ])('%s', (error, text) => {
    expect(explanationOf(error)).toBe(text)
  })

  it('says how to trust the certificate of a stack', () => {
    const cause = Object.assign(new Error('no'), { code: 'SELF_SIGNED_CERT_IN_CHAIN' })
    const error = new InfrastructureError('gone', { cause })
    expect(explanationOf(error)).toContain('NODE_EXTRA_CA_CERTS=')
  })

  it('names the invalid setting, and the alternative', () => {
    const text = explanationOf(new ConfigError(['KAFKA_BROKERS is missing']))
    expect(text).toContain('KAFKA_BROKERS is missing')
    expect(text).toContain('npm run up')
  })

  it('suggests no local stack for a setting that is invalid', () => {
    const fault = 'RESULTS_ROOT_KEYS has no key "2", which is the active one: add it'
    expect(explanationOf(new ConfigError([fault]))).toBe(`Invalid configuration:\n- ${fault}`)
  })

  it('is the advice of a fatal error, such as a missing key', () => {
    expect(explanationOf(new FatalError('key "1" is missing: add it'))).toBe(
      'key "1" is missing: add it')
  })

  it('is the stack of a bug', () => {
    expect(explanationOf(new TypeError('x is no function')))
      .toMatch(/^TypeError: x is no function\n +at .+run-command\.test\.ts/)
  })

  it.each([
    [late('Command timed out', 'Redis (R, a:1)'), wait('Redis (R, a:1)', 'Command timed out')],
    [
      new InfrastructureError('topic t could not be read', { cause: late('timed out', 'K (K)') }),
      `topic t could not be read: ${wait('K (K)', 'timed out')}`,
    ],
    [
      late('Connection is closed.', 'Redis (R, a:1)'), 'Redis (R, a:1) failed: Connection is ' +
      'closed. Check the addresses in the environment; for a local stack run "npm run up".',
    ],
  ])('names the store that failed: %s', (error, text) => {
    expect(explanationOf(error)).toBe(text)
  })
})

describe('the exit code of a command', () => {
  afterEach(() => {
    process.exitCode = undefined
    vi.restoreAllMocks()
  })

  /** Runs `found` (which finds something) or `broken`; resolves with the exit code and stderr. */
  async function run (...words: readonly string[]) {
    let errors = ''
    const write = (text: string) => { errors += text }
    vi.spyOn(process.stderr, 'write').mockImplementation(text => {
      write(String(text))
      return true
    })
    const program = new Command('program').exitOverride()
      .configureOutput({ writeOut: () => {}, writeErr: write })
    program.command('found').action(() => { process.exitCode = 1 })
    program.command('broken').action(() => { throw late('Command timed out', 'Redis (R, a:1)') })
    program.command('wrong').action(() => { throw new UsageError('Give --name.') })
    await runCommand({ parseAsync: () => program.parseAsync(words, { from: 'user' }) })
    return [process.exitCode, errors]
  }

  it('is 1 for what it found, and 2 when it failed or was used wrongly', async () => {
    expect(await run('found')).toEqual([1, ''])
    expect(await run('broken')).toEqual([2, expect.stringMatching(/^Redis .+ did not answer/)])
    expect(await run('wrong')).toEqual([2, 'Give --name.\n'])
    expect(await run('found', '--no-such')).toEqual([2, expect.stringMatching(/^error: unknown/)])
    expect((await run('--help'))[0]).toBe(0)
  })
})

describe('a command whose output goes to a closed pipe', () => {
  it.each([['--help', 0], ['--no-such', 2]])('ends silently: %s', async (word, code) => {
    const child = spawn(process.execPath, ['services/admin/main.ts', word], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let errors = ''
    if (code === 0) child.stderr.on('data', data => { errors += String(data) })
    else child.stderr.destroy()
    child.stdout.destroy()
    expect(await once(child, 'close')).toEqual([code, null])
    expect(errors).toBe('')
  })
})
