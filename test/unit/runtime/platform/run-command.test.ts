import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Command } from 'commander'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ConfigError } from '../../../../services/runtime/platform/config.ts'
import {
  FatalError, InfrastructureError, markFailed,
} from '../../../../services/runtime/platform/errors.ts'
import { runCommand, UsageError } from '../../../../services/runtime/platform/run-command.ts'

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

afterEach(() => {
  process.exitCode = undefined
  vi.restoreAllMocks()
})

/** Runs a command; resolves to its exit code and what it writes to stderr. */
async function outcomeOf (command: () => unknown, words: readonly string[] = ['run']) {
  let errors = ''
  const write = (text: string) => { errors += text }
  vi.spyOn(process.stderr, 'write').mockImplementation(text => {
    write(String(text))
    return true
  })
  const program = new Command('program').exitOverride()
    .configureOutput({ writeOut: () => {}, writeErr: write })
  program.command('run').action(async () => { await command() })
  await runCommand({ parseAsync: () => program.parseAsync(words, { from: 'user' }) })
  return { code: process.exitCode, errors }
}

describe('a failed command', () => {
  const invalid = 'RESULTS_ROOT_KEYS has no key "2", which is the active one: add it'
  const lateKafka = new InfrastructureError('topic t', { cause: late('timed out', 'K (K)') })

  it.each<readonly [Error, string | RegExp]>([
    [new UsageError('Give --name.'), 'Give --name.'],
    [new RangeError('At most 5.'), 'At most 5.'],
    [new FatalError('key "1" is missing: add it'), 'key "1" is missing: add it'],
    [new InfrastructureError('the wallet is locked'), 'the wallet is locked'],
    [new InfrastructureError('topic t', { cause: refused('127.0.0.1:1') }),
      'topic t: connect ECONNREFUSED 127.0.0.1:1'],
    [new TypeError('fetch failed', { cause: refused('::1:1') }), dependency('::1:1')],
    [new AggregateError([refused('127.0.0.1:1')], ''), dependency('127.0.0.1:1')],
    [new InfrastructureError('gone', {
      cause: Object.assign(new Error('no'), { code: 'SELF_SIGNED_CERT_IN_CHAIN' }),
    }), /NODE_EXTRA_CA_CERTS=/],
    [new ConfigError(['KAFKA_BROKERS is missing']), /KAFKA_BROKERS is missing[^]*npm run up/],
    [new ConfigError([invalid]), `Invalid configuration:\n- ${invalid}`],
    [new TypeError('x is no function'), /^TypeError: x is no function\n +at .+run-command\.test/],
    [late('Command timed out', 'Redis (R, a:1)'), wait('Redis (R, a:1)', 'Command timed out')],
    [lateKafka, `topic t: ${wait('K (K)', 'timed out')}`],
    [late('Connection is closed.', 'Redis (R, a:1)'), 'Redis (R, a:1) failed: Connection is ' +
      'closed. Check the addresses in the environment; for a local stack run "npm run up".'],
  ])('says what to do, and ends with code 2: %s', async (error, text) => {
    const { code, errors } = await outcomeOf(() => { throw error })
    expect(code).toBe(2)
    if (typeof text === 'string') expect(errors).toBe(`${text}\n`)
    else expect(errors).toMatch(text)
  })
})

it('the exit code of a command is 1 for what it found, 2 for wrong usage, 0 for help', async () => {
  const find = () => { process.exitCode = 1 }
  expect(await outcomeOf(find)).toEqual({ code: 1, errors: '' })
  expect(await outcomeOf(find, ['run', '--no-such']))
    .toEqual({ code: 2, errors: expect.stringMatching(/^error: unknown/) })
  expect(await outcomeOf(find, ['--help'])).toMatchObject({ code: 0 })
})

it.each([['--help', 0], ['--no-such', 2]])('a command whose output goes to a closed pipe ' +
  'ends silently: %s', async (word, code) => {
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
