import { hostname } from 'node:os'
import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import {
  type CommandActions, recordCommands, wordsOf,
} from '../../../services/access-log/commands.ts'
import type { AccessEvent } from '../../../services/access-log/entry.ts'
import { OPS_ACTIONS } from '../../../services/ops/command-actions.ts'
import { createOpsProgram } from '../../../services/ops/program.ts'
import { operatorName } from '../../../services/platform/command-environment.ts'
import { WORKSPACE_ACTIONS } from '../../../services/workspace/command-actions.ts'
import { createWorkspaceProgram } from '../../../services/workspace/program.ts'

/** The commands of a program that do something themselves, by their words. */
function commandsOf (program: Command): readonly string[] {
  const names = program.commands.flatMap(commandsOf)
  const isGroup = program.commands.length > 0 && wordsOf(program) !== 'cells'
  return isGroup ? names : [wordsOf(program), ...names]
}

const programs = [
  ['workspace', createWorkspaceProgram(() => {}), WORKSPACE_ACTIONS],
  ['ops', createOpsProgram(() => {}), OPS_ACTIONS],
] as const

/** The entries and the work of the commands of the workspace, in order. */
function createWorkspace () {
  const done: (AccessEvent | string)[] = []
  let isDown = false
  const program = () => recordCommands(
    createWorkspaceProgram(() => {}, async () => {
      done.push('work')
      return {} as never
    }),
    WORKSPACE_ACTIONS, async (env, event) => {
      expect(env['PATH']).toBeDefined()
      if (isDown) throw new Error('down')
      done.push(event)
    })
  return {
    done,
    fail: () => { isDown = true },
    run: async (...words: readonly string[]) => program().parseAsync(words, { from: 'user' }),
  }
}

const entry = { actor: { kind: 'operator', id: operatorName() }, address: hostname() }

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
    expect(readingOf(OPS_ACTIONS)).toEqual([
      'lag', 'jobs', 'scale-advice', 'capacity', 'cells', 'drain', 'dead list', 'audit',
    ])
  })

  it('are not recorded when they are not confirmed', async () => {
    const { done, run } = createWorkspace()
    await expect(run('org', 'erase', '--org', 'org_1')).rejects.toThrow('pass --yes')
    expect(done).toEqual([])
  })

  it('are recorded before they run, with the operator and what they are about', async () => {
    const { done, run } = createWorkspace()
    await run('key', 'roll', '--org', 'org_1', '--key', 'key_1')
    await run('topup', '--org', 'org_1', '--usd', '5', '--id', 'payment_1')
    await run('partner', 'rotate', '--name', 'acme')
    expect(done).toEqual([
      {
        ...entry,
        organization: 'org_1',
        action: 'key.rolled',
        target: 'key_1',
        details: { graceHours: '24' },
      },
      'work',
      {
        ...entry,
        organization: 'org_1',
        action: 'balance.topped_up',
        target: '',
        details: { mode: 'live', usd: '5', id: 'payment_1' },
      },
      'work',
      {
        ...entry,
        organization: 'installation',
        action: 'partner.rotated',
        target: 'acme',
        details: { name: 'acme', graceHours: '24' },
      },
      'work',
    ])
  })

  it('do not run when their entry is not stored', async () => {
    const { done, run, fail } = createWorkspace()
    fail()
    await expect(run('key', 'revoke', '--org', 'org_1', '--key', 'key_1')).rejects.toThrow('down')
    expect(done).toEqual([])
  })

  it('that only read are not recorded', async () => {
    const { done, run } = createWorkspace()
    await run('key', 'list', '--org', 'org_1')
    await run('policy', '--org', 'org_1')
    expect(done).toEqual(['work', 'work'])
    await run('policy', '--org', 'org_1', '--weight', '2')
    expect(done[2]).toMatchObject({ action: 'policy.changed', details: { weight: '2' } })
    const actionOf = (name: string, options: Record<string, boolean>) =>
      (OPS_ACTIONS[name] as (options: Record<string, boolean>) => string | null)(options)
    expect([actionOf('replay', {}), actionOf('dead show', {})]).toEqual([null, null])
    expect([actionOf('replay', { yes: true }), actionOf('dead show', { open: true })])
      .toEqual(['stage.replayed', 'letters.opened'])
  })
})
