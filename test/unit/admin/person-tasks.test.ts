import { Command } from 'commander'
import { beforeEach, describe, expect, it } from 'vitest'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { addAccountCommands } from '../../../services/admin/account-commands.ts'
import type { WorkspaceDeps } from '../../../services/admin/deps.ts'
import {
  addPerson, changePerson, listPeople, removePerson, signOutPerson,
} from '../../../services/admin/person-tasks.ts'
import { peopleOn } from '../../support/stored-people.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

let deps: WorkspaceDeps
let org: string
beforeEach(async () => {
  const { redis } = memoryRedis()
  const organizations = createOrganizations(redis)
  deps = { organizations, people: peopleOn(redis) } as unknown as WorkspaceDeps
  org = (await organizations.create('One')).id
  await addPerson(deps, { org, email: 'Owner@example.com', role: 'owner' })
})

describe('the commands for people', () => {
  it('add, list, change, sign out and remove a person by the address', async () => {
    const made = await addPerson(deps, { org, email: 'ann@example.com', role: 'finance' })
    expect(made).toMatchObject({
      email: 'ann@example.com', role: 'finance', createdBy: 'operator', hasSignedIn: false,
    })
    const ann = { org, email: ' ANN@example.com ' }
    expect(await changePerson(deps, { ...ann, role: 'read-only' }))
      .toMatchObject({ id: made.id, role: 'read-only' })
    await signOutPerson(deps, ann)
    expect(await deps.people.find(org, String(made.id))).toMatchObject({ generation: 1 })
    expect(await listPeople(deps, { org })).toMatchObject({
      people: [{ email: 'owner@example.com' }, { email: 'ann@example.com', role: 'read-only' }],
    })
    expect(await removePerson(deps, ann))
      .toEqual({ id: made.id, email: 'ann@example.com', removed: true })
    expect(await listPeople(deps, { org })).toMatchObject({ people: [{ role: 'owner' }] })
  })

  it('warn about changes that are only in Redis, and need organization, address and role', () => {
    const changing: unknown[] = []
    const change = (task: unknown) => {
      changing.push(task)
      return async () => {}
    }
    const program = new Command()
    addAccountCommands(program, { run: () => async () => {}, change })
    expect(changing).toEqual(
      expect.arrayContaining([addPerson, changePerson, removePerson, signOutPerson]))
    expect(changing).not.toContain(listPeople)
    const person = program.commands.find(command => command.name() === 'person')
    expect(person?.commands.map(command => [
      command.name(), command.options.filter(({ mandatory }) => mandatory).map(({ long }) => long),
    ])).toEqual([
      ['add', ['--org', '--email', '--role']],
      ['list', ['--org']],
      ['change', ['--org', '--email', '--role']],
      ['sign-out', ['--org', '--email']],
      ['remove', ['--org', '--email']],
    ])
  })

  it('explain what is wrong', async () => {
    const owner = { org, email: 'owner@example.com' }
    const cases = [
      [addPerson(deps, { ...owner, role: 'owner' }), 'is a member already'],
      [addPerson(deps, { org, email: 'x', role: 'owner' }), 'is not an e-mail address'],
      [addPerson(deps, { org, email: 'a@example.com', role: 'root' }),
        '--role must be one of owner, developer, finance, read-only, not "root"'],
      [addPerson(deps, { org: 'org_none', email: 'a@example.com', role: 'owner' }),
        'organization "org_none" does not exist'],
      [removePerson(deps, owner), 'the last owner'],
      [changePerson(deps, { ...owner, role: 'developer' }), 'the last owner'],
      [removePerson(deps, { org, email: 'a@example.com' }), 'has no person "a@example.com"'],
    ] as const
    for (const [task, message] of cases) {
      await expect(task).rejects.toMatchObject({
        name: 'UsageError', message: expect.stringContaining(message),
      })
    }
  })
})
