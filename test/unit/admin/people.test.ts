import { beforeEach, describe, expect, it } from 'vitest'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import type { WorkspaceDeps } from '../../../services/admin/deps.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { commandOn } from '../../support/admin.ts'
import { peopleOn } from '../../support/page/stored-people.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const addPerson = commandOn('person add')
const changePerson = commandOn('person change')
const listPeople = commandOn('person list')
const removePerson = commandOn('person remove')
const signOutPerson = commandOn('person sign-out')

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

  it('warn about changes only in Redis', async () => {
    const made = await addPerson(deps, { org, email: 'ann@example.com', role: 'finance' })
    const lines: string[] = []
    const program = () => createAdminProgram({
      print: line => { lines.push(line) },
      open: async (_env, work) =>
        await work({ ...deps, accounts: { areShipped: async () => false } } as never),
    })
    const ann = ['--org', org, '--email', String(made['email'])]
    for (const [warns, ...words] of [
      [true, 'add', '--org', org, '--email', 'bob@example.com', '--role', 'finance'],
      [true, 'change', ...ann, '--role', 'developer'], [true, 'sign-out', ...ann],
      [false, 'list', '--org', org], [true, 'remove', ...ann],
    ] as const) {
      lines.length = 0
      await program().parseAsync(['person', ...words], { from: 'user' })
      expect([words[0], lines.join('\n').includes('not yet in Kafka')]).toEqual([words[0], warns])
    }
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
