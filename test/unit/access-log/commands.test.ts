import { hostname } from 'node:os'
import type { Command } from 'commander'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  type CommandActions, recordCommands, wordsOf,
} from '../../../services/access-log/commands.ts'
import type { AccessEvent } from '../../../services/access-log/entry.ts'
import { OPS_ACTIONS } from '../../../services/admin/command-actions.ts'
import { createOpsProgram } from '../../../services/admin/program.ts'
import { operatorName } from '../../../services/platform/command-environment.ts'
import { CommandFailure, UsageError } from '../../../services/platform/run-command.ts'
import { workspaceActions } from '../../../services/admin/workspace-command-actions.ts'
import { createWorkspaceProgram } from '../../../services/admin/workspace-program.ts'

afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

/** The commands of a program that do something themselves, by their words. */
function commandsOf (program: Command): readonly string[] {
  const names = program.commands.flatMap(commandsOf)
  return program.commands.length > 0 ? names : [wordsOf(program)]
}

const findPerson = async (_env: object, orgId: string, email: string) =>
  orgId === 'org_1' && email === 'ann@example.com'
    ? { id: 'per_1', role: 'finance' } as never
    : undefined

const WORKSPACE_ACTIONS = workspaceActions(findPerson)

const programs = [
  ['workspace', createWorkspaceProgram(() => {}), WORKSPACE_ACTIONS],
  ['ops', createOpsProgram(() => {}), OPS_ACTIONS],
] as const

/** The entries and the work of the commands of the workspace, in order. */
function createWorkspace (work: () => object = () => ({})) {
  const done: (AccessEvent | string)[] = []
  let stored = Infinity
  const program = () => recordCommands(
    createWorkspaceProgram(() => {}, async () => {
      done.push('work')
      return work() as never
    }),
    WORKSPACE_ACTIONS, async (env, event) => {
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
  it.each(programs)('of %s each have a line in the table of actions', (_name, program, actions) => {
    expect(commandsOf(program).toSorted()).toEqual(Object.keys(actions).toSorted())
  })

  it('without an action only read', () => {
    const readingOf = (actions: CommandActions) =>
      Object.keys(actions).filter(name => actions[name] === null)
    expect(readingOf(WORKSPACE_ACTIONS)).toEqual([
      'org list', 'person list', 'key list', 'balance', 'webhook-key show',
      'webhook-endpoint list', 'partner list', 'audit', 'keys list',
    ])
    expect(readingOf(OPS_ACTIONS))
      .toEqual(['lag', 'jobs', 'cells', 'drain', 'dead list', 'audit'])
  })

  it('are not recorded when they are not confirmed', async () => {
    const { done, run } = createWorkspace()
    await expect(run('org', 'erase', '--org', 'org_1')).rejects.toThrow('pass --yes')
    expect(done).toEqual([])
  })

  it('are recorded before they run and after it, with the operator and the result', async () => {
    const { done, run } = createWorkspace(() => ({ id: 'key_2', secret: 's', replaces: 'key_1' }))
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
    const { done, run } = createWorkspace(() => { throw error })
    await expect(run('key', 'revoke', '--org', 'org_1', '--key', 'key_1')).rejects.toBe(error)
    expect(outcomesIn(done)).toEqual(['attempted', 'work', outcome])
  })

  it.each([
    [1, 'incomplete'], [2, 'failed'],
  ])('that end with the exit code %i are recorded as %s', async (exitCode, outcome) => {
    const { done, run } = createWorkspace(() => {
      process.exitCode = exitCode
      return {}
    })
    await run('thaw', '--org', 'org_1')
    expect(outcomesIn(done)).toEqual(['attempted', 'work', outcome])
  })

  it('do not run when their attempt is not stored', async () => {
    const { done, run, failAfter } = createWorkspace()
    failAfter(0)
    await expect(run('key', 'revoke', '--org', 'org_1', '--key', 'key_1')).rejects.toThrow('down')
    expect(done).toEqual([])
  })

  it('succeed though their result is not stored, and say so', async () => {
    const { done, run, failAfter } = createWorkspace()
    const shown = vi.spyOn(console, 'error').mockImplementation(() => {})
    failAfter(1)
    await run('key', 'revoke', '--org', 'org_1', '--key', 'key_1')
    expect(outcomesIn(done)).toEqual(['attempted', 'work'])
    expect(shown.mock.calls.flat()).toEqual([
      'The command has ended (done), but the access log has only its attempt: Error: down',
    ])
  })

  it('do not run with a folder that has no stack', async () => {
    const { done, run } = createWorkspace()
    vi.stubEnv('REDIS_STATE_URL', '')
    await expect(run('--data', '/none', 'org', 'list')).rejects
      .toThrow('/none/stack.json does not exist.')
    vi.unstubAllEnvs()
    expect(done).toEqual([])
  })

  it('that only read are not recorded', async () => {
    const { done, run } = createWorkspace()
    await run('key', 'list', '--org', 'org_1')
    await run('policy', '--org', 'org_1')
    expect(done).toEqual(['work', 'work'])
    await run('policy', '--org', 'org_1', '--weight', '2')
    expect(done[2]).toMatchObject({ action: 'policy.changed', details: { weight: '2' } })
    const actionOf = async (name: string, options: Record<string, boolean>) =>
      await (OPS_ACTIONS[name] as (options: object, env: object) => unknown)(options, {})
    expect([await actionOf('replay', {}), await actionOf('dead show', {})]).toEqual([null, null])
  })
})
