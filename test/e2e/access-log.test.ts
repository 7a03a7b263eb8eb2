import { expect, it } from 'vitest'
import { createAccessLog } from '../../services/accounts/access-log/access-log.ts'
import { createAccessCopy } from '../../services/accounts/access-log/copy.ts'
import { createApiKeys } from '../../services/accounts/api-keys.ts'
import { operatorName } from '../../services/runtime/platform/command-environment.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { eventually } from '../support/eventually.ts'
import { openHttpBrowser } from '../support/page/http-browser.ts'
import { startPageEnvironment } from '../support/page/page.ts'
import { startProgram } from '../support/stacks/processes.ts'
import { newFolder } from '../support/folder.ts'
import { exportAccessLog } from '../support/workspace.ts'

const { clickhouse, env, recordMac, state } = connectAll()
const folder = newFolder('verification-jobs-access-')

const environment = closeAfterAll(await startPageEnvironment({ COPY_AFTER_MS: '100' }))
const orgId = environment.demo.orgId

/** A command as an operator types it. */
const workspace = async (...words: readonly string[]) =>
  await startProgram(
    process.execPath, ['services/admin/main.ts', '--data', folder, ...words],
    { ...env, PAGE_URL: environment.pageUrl }).ended()

/** A browser that has opened a link to sign in. */
async function signIn (link: string) {
  const browser = await openHttpBrowser(environment.pageUrl)
  await browser.openLink(link)
  return browser
}

/** The results of an organization's entries, once there are as many. */
const exported = async (count: number, org = orgId) => await eventually(async () => {
  const { entries, exitCode } = await exportAccessLog(env, org)
  expect(exitCode).toBeUndefined()
  const results = entries.filter(({ outcome }) => outcome !== 'attempted')
  expect(results).toHaveLength(count)
  // A session has only the entry of its start.
  const attempts = entries.filter(({ outcome }) => outcome === 'attempted')
  const started = results.filter(({ id = '' }) => !id.endsWith(':result'))
  expect(attempts.map(({ id }) => `${id}:result`).toSorted())
    .toEqual(results.filter(one => !started.includes(one)).map(({ id }) => id).toSorted())
  expect(started.filter(({ action }) => action !== 'session.started')).toEqual([])
  return results
})

it('the log of an organization begins with its creation', async () => {
  const { out } = await workspace('--json', 'org', 'create', '--name', 'Example')
  const { id } = JSON.parse(out) as { readonly id: string }
  expect(await workspace('topup', '--org', id, '--usd', '5')).toMatchObject({ code: 0 })
  expect((await exported(2, id)).map(({ action, outcome }) => [action, outcome])).toEqual([
    ['organization.created', 'done'], ['balance.topped_up', 'done'],
  ])
})

it('the log of the installation has commands for an organization that does not exist', async () => {
  expect((await workspace('org', 'erase', '--org', 'org_nope', '--yes')).code).toBe(2)
  await eventually(async () => {
    const { entries } = await exportAccessLog(env, 'installation')
    expect(entries.filter(({ action }) => action === 'organization.erased')
      .map(({ outcome }) => outcome)).toEqual(['attempted', 'refused'])
  })
})

it('commands, the page and the REST API are in the access log, with who did what', async () => {
  const { code, out } = await workspace('--json', 'sign-in', '--org', orgId)
  expect(code).toBe(0)
  const { submit, open } = await signIn((JSON.parse(out) as { readonly url: string }).url)
  const form = { scope: 'jobs:read', name: 'Reports' }
  expect((await submit('/live/keys', '/live/keys', form)).status).toBe(200)
  const { id } = await environment.live.createJob({
    service: 'phone-validation', inputs: ['+12127360008', '+12127360001'],
  })
  await environment.live.waitForEnd(id)
  await environment.live.results(id)
  expect((await open(`/live/jobs/${id}/results.csv`)).body).toContain('+12127360008')
  const erased = await submit(`/live/jobs/${id}/erase`, `/live/jobs/${id}/erase`)
  expect([erased.status, erased.url.search]).toEqual([200, '?notice=erased'])
  await submit('/sign-out', '/live/keys')
  const entries = await exported(7)
  const keyId = await keyOfClient()
  const made = (await createApiKeys(state).list(orgId)).find(({ name }) => name === 'Reports')
  expect(entries.map(({ action, actor_kind: kind, target }) => [action, kind, target])).toEqual([
    ['sign_in_link.created', 'operator', ''],
    ['session.started', 'link', ''],
    ['key.created', 'link', made?.id],
    ['results.downloaded', 'key', id],
    ['results.downloaded', 'link', id],
    ['job.erased', 'link', id],
    ['session.ended', 'link', ''],
  ])
  expect(entries.map(({ actor }) => actor)).toEqual([
    operatorName(), ...[1, 2].map(() => entries[1]!['actor']), keyId,
    ...[4, 5, 6].map(() => entries[1]!['actor']),
  ])
  expect(entries.map(({ address }) => address).slice(1)).toEqual(Array(6).fill('127.0.0.1'))
  expect(JSON.stringify(entries)).not.toMatch(/2127360008|Reports/)
})

it('a command is in the access log with whom it concerns, and whether it worked', async () => {
  const person = (command: string, ...more: readonly string[]) =>
    workspace('--json', 'person', command, '--org', orgId, '--email', 'ann@example.com', ...more)
  const added = await person('add', '--role', 'read-only')
  const { id } = JSON.parse(added.out) as { readonly id: string }
  expect((await person('change', '--role', 'owner')).code).toBe(0)
  expect((await person('remove')).code).toBe(2)
  const entries = (await exported(10)).slice(7)
  expect(entries.map(({ action, target, outcome }) => [action, target, outcome])).toEqual([
    ['person.added', id, 'done'], ['person.changed', id, 'done'], ['person.removed', id, 'refused'],
  ])
  expect(entries.map(({ details = '' }) => JSON.parse(details) as object)).toEqual([
    { role: 'read-only' }, { role: 'owner', previousRole: 'read-only' }, { previousRole: 'owner' },
  ])
  expect(JSON.stringify(entries)).not.toContain('ann@')
})

it('rewrapping is in the access log of the installation, with the active root keys', async () => {
  await workspace('keys', 'rewrap')
  await eventually(async () => {
    const results = (await exportAccessLog(env, 'installation')).entries
      .filter(({ action, outcome }) => action === 'keys.rewrapped' && outcome !== 'attempted')
    expect(results.at(-1)?.['target']).toMatch(/^results:\S+ webhooks:\S+ partners:\S+$/)
  })
})

/** The id of the API key of the REST client. */
async function keyOfClient (): Promise<string | undefined> {
  const keys = await createApiKeys(state).list(orgId)
  return keys.find(({ last4 }) => environment.demo.keys.live.endsWith(last4))?.id
}

it('the page shows the access log of its organization, and a file of it', async () => {
  const other = `${orgId}0`
  await createAccessLog(state).append({
    organization: other, actor: { kind: 'operator', id: 'op' }, action: 'job.erased',
  })
  const copy = createAccessCopy(clickhouse, recordMac)
  await eventually(async () =>
    expect(await copy.newest({ organization: other, limit: 1 })).toHaveLength(1))
  const { open } = await signIn(await environment.linkFor(orgId))
  await eventually(async () =>
    expect((await open('/live/access-log')).body.match(/<td>Session started/g)).toHaveLength(2))
  const { body: page } = await open('/live/access-log?action=job.erased')
  expect(page.match(/<td>Job erased/g)).toHaveLength(1)
  expect(page).not.toContain('<td>Session')
  const lines = (await open('/live/access-log.csv')).body.trimEnd().split('\r\n')
  expect(lines[0]).toMatch(/^number,time,action,/)
  expect(lines.filter(line => line.includes(',job.erased,'))).toHaveLength(1)
})
