import { beforeEach, describe, expect, it } from 'vitest'
import { openOn, runCommand } from '../../support/admin.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

let deps: Workspace['deps']
let org: string
let run: Workspace['run']
beforeEach(async () => {
  ({ deps, org, run } = await openWorkspace())
  await run('person add', { org, email: 'Owner@example.com', role: 'owner' })
})

describe('the commands for people', () => {
  it('add, list, change, sign out and remove a person by the address', async () => {
    const made = await run('person add', { org, email: 'ann@example.com', role: 'finance' })
    expect(made).toMatchObject({
      email: 'ann@example.com', role: 'finance', createdBy: 'operator', hasSignedIn: false,
    })
    const ann = { org, email: ' ANN@example.com ' }
    expect(await run('person change', { ...ann, role: 'read-only' }))
      .toMatchObject({ id: made.id, role: 'read-only' })
    await run('person sign-out', ann)
    expect(await deps.people.find(org, String(made.id))).toMatchObject({ generation: 1 })
    expect(await run('person list', { org })).toMatchObject({
      people: [{ email: 'owner@example.com' }, { email: 'ann@example.com', role: 'read-only' }],
    })
    expect(await run('person remove', ann))
      .toEqual({ id: made.id, email: 'ann@example.com', removed: true })
    expect(await run('person list', { org })).toMatchObject({ people: [{ role: 'owner' }] })
  })

  it('warn about changes only in Redis', async () => {
    await run('person add', { org, email: 'ann@example.com', role: 'finance' })
    const open = openOn({ ...deps, accounts: { areShipped: async () => false } })
    const ann = '--email ann@example.com'
    for (const [words, warns] of [
      ['add --email bob@example.com --role finance', true], [`change ${ann} --role owner`, true],
      [`sign-out ${ann}`, true], ['list', false], [`remove ${ann}`, true],
    ] as const) {
      const printed = await runCommand(`person ${words} --org ${org}`, { open })
      expect([words, printed.includes('not yet in Kafka')]).toEqual([words, warns])
    }
  })

  it('explain what is wrong', async () => {
    const owner = { org, email: 'owner@example.com' }
    const cases = [
      [run('person add', { ...owner, role: 'owner' }), 'is a member already'],
      [run('person add', { org, email: 'x', role: 'owner' }), 'is not an e-mail address'],
      [run('person add', { org, email: 'a@example.com', role: 'root' }),
        '--role must be one of owner, developer, finance, read-only, not "root"'],
      [run('person add', { org: 'org_none', email: 'a@example.com', role: 'owner' }),
        'organization "org_none" does not exist'],
      [run('person remove', owner), 'the last owner'],
      [run('person change', { ...owner, role: 'developer' }), 'the last owner'],
      [run('person remove', { org, email: 'a@example.com' }), 'has no person "a@example.com"'],
    ] as const
    for (const [task, message] of cases) {
      await expect(task).rejects.toMatchObject({
        name: 'UsageError', message: expect.stringContaining(message),
      })
    }
  })
})
