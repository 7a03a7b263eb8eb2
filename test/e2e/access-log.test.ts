import { expect, it } from 'vitest'
import { createAccessLog } from '../../services/accounts/access-log/access-log.ts'
import { createAccessCopy } from '../../services/accounts/access-log/copy.ts'
import { createApiKeys } from '../../services/accounts/api-keys.ts'
import { operatorName } from '../../services/runtime/platform/command-environment.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { runAudit } from '../support/audit.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { eventually } from '../support/eventually.ts'
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

/** A browser that opens a link to sign in, and what it sends from then on. */
async function signIn (link: string) {
  const { pageUrl } = environment
  const send = async (path: string, form: Record<string, string>, cookie = '') =>
    await fetch(`${pageUrl}${path}`, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: pageUrl, cookie },
      body: new URLSearchParams(form),
    })
  const answer = await send('/sign-in', { code: link.split('#')[1] ?? '' })
  const [cookie = ''] = (answer.headers.get('set-cookie') ?? '').split(';')
  const get = async (path: string) =>
    await (await fetch(`${pageUrl}${path}`, { headers: { cookie } })).text()
  const valueOf = (page: string, name: string) =>
    new RegExp(`name="${name}" value="([^"]+)"`).exec(page)?.[1] ?? ''
  return {
    get,
    submit: async (path: string, form: Record<string, string>, from = path) => {
      const page = await get(from)
      const hidden = { form_token: valueOf(page, 'form_token'), nonce: valueOf(page, 'nonce') }
      return await send(path, { ...hidden, ...form }, cookie)
    },
  }
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
  const { submit, get } = await signIn((JSON.parse(out) as { readonly url: string }).url)
  expect((await submit('/live/keys', { scope: 'jobs:read', name: 'Reports' })).status).toBe(200)
  const { id } = await environment.live.createJob({
    service: 'phone-validation', inputs: ['+12127360008', '+12127360001'],
  })
  await environment.live.waitForEnd(id)
  await environment.live.results(id)
  expect(await get(`/live/jobs/${id}/results.csv`)).toContain('+12127360008')
  const erased = await submit(`/live/jobs/${id}/erase`, {}, `/live/jobs/${id}/erase`)
  expect(erased.status).toBe(303)
  await submit('/sign-out', {}, '/live/keys')
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
  const { get } = await signIn(await environment.linkFor(orgId))
  await eventually(async () =>
    expect((await get('/live/access-log')).match(/<td>Session started/g)).toHaveLength(2))
  const page = await get('/live/access-log?action=job.erased')
  expect(page.match(/<td>Job erased/g)).toHaveLength(1)
  expect(page).not.toContain('<td>Session')
  const lines = (await get('/live/access-log.csv')).trimEnd().split('\r\n')
  expect(lines[0]).toMatch(/^number,time,action,/)
  expect(lines.filter(line => line.includes(',job.erased,'))).toHaveLength(1)
})

it('an entry that is removed is found by the audit and by the export', async () => {
  const copy = createAccessCopy(clickhouse, recordMac)
  const entry = await eventually(async () => {
    const [found] = await copy.newest({ organization: orgId, action: 'job.erased', limit: 1 })
    expect(found).toBeDefined()
    return found
  })
  await clickhouse.command({
    query: `ALTER TABLE access_log DELETE WHERE seq = ${entry!.seq} SETTINGS mutations_sync = 2`,
  })
  const missing = `entry ${entry!.seq} is missing in ClickHouse`
  // The customers of other files on this stack may be busy for ever.
  const { breaches } = await runAudit(env, { waitMs: 1_000 })
  expect(breaches.filter(({ tenant }) => tenant === 'access.log').map(({ detail }) => detail))
    .toContainEqual(expect.stringContaining(missing))
  const { code, out, errors } = await workspace('access-log', '--org', orgId)
  expect([code, errors]).toEqual([1, expect.stringContaining(missing)])
  // Kafka still has it.
  expect(out).toContain(',job.erased,')
  await copy.append([entry!])
  await exported(13)
})
