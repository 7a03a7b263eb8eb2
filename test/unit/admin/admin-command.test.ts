import { hostname } from 'node:os'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { AdminCommand, recordCommands } from '../../../services/admin/command-line.ts'
import type { AccessEvent } from '../../../services/accounts/access-log/access-log.ts'
import { operatorName } from '../../../services/runtime/platform/command-environment.ts'
import { CommandFailure, UsageError } from '../../../services/runtime/platform/run-command.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { leavesOf } from '../../support/admin.ts'

afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

/** The entries and the work of commands, in order. */
function createProgram (work: () => object = () => ({})) {
  const done: (AccessEvent | string)[] = []
  let stored = Infinity
  const program = () => recordCommands(
    createAdminProgram({
      print: () => {},
      open: async () => {
        done.push('work')
        return work() as never
      },
    }),
    async (env, event) => {
      expect(env['PATH']).toBeDefined()
      if (stored-- <= 0) throw new Error('down')
      done.push(event)
    })
  return {
    done,
    /** Stores so many entries and fails from then on. */
    failAfter: (count: number) => { stored = count },
    run: async (...words: readonly string[]) => program().parseAsync(words, { from: 'user' }),
  }
}

const entry = { actor: { kind: 'operator', id: operatorName() }, address: hostname() }
const outcomesIn = (done: readonly (AccessEvent | string)[]) =>
  done.map(one => typeof one === 'string' ? one : one.outcome)

describe('commands', () => {
  it('that only read are these', () => {
    const reading = leavesOf(createAdminProgram()).filter(({ recording }) => recording === null)
    expect(reading.map(({ words }) => words),
      'add a command here if it changes nothing and shows no secret, or else call records()',
    ).toEqual([
      'org list', 'person list', 'key list', 'balance', 'outbox', 'webhook-key show',
      'webhook-endpoint list', 'partner list', 'audit', 'keys list', 'lag', 'jobs', 'cells',
      'egress', 'drain', 'dead list', 'backup',
    ])
  })

  it('that do not say what is recorded of them do not run', async () => {
    const program = new AdminCommand().option('--data <folder>', '', '.local')
    const ran: string[] = []
    program.command('silent').action(() => { ran.push('silent') })
    await expect(recordCommands(program).parseAsync(['silent'], { from: 'user' })).rejects
      .toThrow('the definition of "silent" does not say what is recorded of it')
    expect(ran).toEqual([])
  })

  it('are not recorded when they are not confirmed', async () => {
    const { done, run } = createProgram()
    await expect(run('org', 'erase', '--org', 'org_1')).rejects.toThrow('pass --yes')
    expect(done).toEqual([])
  })

  it('are recorded before they run and after it, with the operator and the result', async () => {
    const { done, run } = createProgram(() => ({ id: 'key_2', secret: 's', replaces: 'key_1' }))
    await run('key', 'roll', '--org', 'org_1', '--key', 'key_1')
    const attempt = {
      ...entry,
      organization: 'org_1',
      action: 'key.rolled',
      entryId: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      outcome: 'attempted',
      target: 'key_1',
      details: { graceHours: '24' },
    }
    const { entryId = '' } = done[0] as AccessEvent
    expect(done).toEqual([attempt, 'work', {
      ...attempt,
      entryId: `${entryId}:result`,
      outcome: 'done',
      details: { graceHours: '24', newKey: 'key_2' },
    }])
  })

  it.each([
    ['refused', new UsageError('no such key')],
    ['refused', new RangeError('invalid amount')],
    ['failed', new CommandFailure('Kafka does not respond')],
    ['failed', new Error('READONLY')],
  ] as const)('that end with an error are recorded as %s', async (outcome, error) => {
    const { done, run } = createProgram(() => { throw error })
    await expect(run('key', 'revoke', '--org', 'org_1', '--key', 'key_1')).rejects.toBe(error)
    expect(outcomesIn(done)).toEqual(['attempted', 'work', outcome])
  })

  it.each([
    [1, 'incomplete'], [2, 'failed'],
  ])('that end with the exit code %i are recorded as %s', async (exitCode, outcome) => {
    const { done, run } = createProgram(() => {
      process.exitCode = exitCode
      return {}
    })
    await run('thaw', '--org', 'org_1')
    expect(outcomesIn(done)).toEqual(['attempted', 'work', outcome])
  })

  it('do not run when their attempt is not stored', async () => {
    const { done, run, failAfter } = createProgram()
    failAfter(0)
    await expect(run('key', 'revoke', '--org', 'org_1', '--key', 'key_1')).rejects.toThrow('down')
    expect(done).toEqual([])
  })

  it('succeed though their result is not stored, and say so', async () => {
    const { done, run, failAfter } = createProgram()
    const shown = vi.spyOn(console, 'error').mockImplementation(() => {})
    failAfter(1)
    await run('key', 'revoke', '--org', 'org_1', '--key', 'key_1')
    expect(outcomesIn(done)).toEqual(['attempted', 'work'])
    expect(shown.mock.calls.flat()).toEqual([
      'The command has ended (done), but the access log has only its attempt: Error: down',
    ])
  })

  it('do not run with a folder that has no stack', async () => {
    const { done, run } = createProgram()
    vi.stubEnv('REDIS_STATE_URL', '')
    await expect(run('--data', '/none', 'org', 'list')).rejects
      .toThrow('/none/stack.json does not exist.')
    vi.unstubAllEnvs()
    expect(done).toEqual([])
  })

  it('that only read are not recorded', async () => {
    const { done, run } = createProgram()
    await run('key', 'list', '--org', 'org_1')
    await run('policy', '--org', 'org_1')
    expect(done).toEqual(['work', 'work'])
    await run('policy', '--org', 'org_1', '--weight', '2')
    expect(done[2]).toMatchObject({ action: 'policy.changed', details: { weight: '2' } })
    const recordingOf = (name: string) =>
      leavesOf(createAdminProgram()).find(({ words }) => words === name)?.recording
    for (const name of ['replay', 'dead show']) {
      expect((recordingOf(name) as (options: object, env: object) => unknown)({}, {})).toBeNull()
    }
  })
})
