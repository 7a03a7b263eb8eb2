import { describe, expect, it } from 'vitest'
import { ROLES, type Role } from '../../services/accounts/people.ts'
import { pageDefinitions } from '../../services/page/app.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openHttpBrowser } from '../support/page/http-browser.ts'
import { loginOf } from '../support/page/openid-provider.ts'
import { startPeopleEnvironment } from '../support/page/people.ts'

const environment = closeAfterAll(await startPeopleEnvironment())
const open = () => openHttpBrowser(environment.pageUrl)
const withoutProvider = await Promise.all(['/sign-in/start', '/sign-in'].map(async path =>
  await (await fetch(environment.pageUrl + path)).text()))
await environment.startProvider()

const emailOf = (name: string) => `${name}@people.example`
const login = (name: string) => loginOf(name, emailOf(name))

/** A new person of the organization, who has signed in. */
async function signedIn (name: string, role: Role) {
  const person = await environment.add(emailOf(name), role)
  const browser = await open()
  const loaded = await browser.signIn(login(name))
  return { person, browser, loaded }
}

it('a provider that is down is reported, and links are offered', () => {
  expect(withoutProvider).toEqual([
    expect.stringMatching(/The sign-in provider does not answer[^]+with a link/),
    expect.stringContaining('with a link'),
  ])
})

describe('a sign-in through a provider', () => {
  it('leads to the overview, and is completed once, in the browser that began it', async () => {
    const { loaded, browser } = await signedIn('ann', 'owner')
    expect([loaded.status, loaded.url.pathname]).toEqual([200, '/live/overview'])
    expect(loaded.body).toContain(emailOf('ann'))
    expect((await browser.cookies()).filter(({ domain }) => domain === '127.0.0.1'))
      .toMatchObject([{ name: 'session', httpOnly: true, sameSite: 'Strict' }])
    const other = await open()
    await other.open('/sign-in/start')
    for (const attacked of [browser, await open(), other]) {
      const { status, body } = await attacked.open(loaded.completed)
      expect([status, body]).toEqual([403, expect.stringContaining('did not succeed')])
    }
  })

  it('under the state of another one has no use of its code', async () => {
    const { loaded: { completed } } = await signedIn('carl', 'developer')
    const browser = await open()
    const state = await browser.stateOfStart()
    const { status } = await browser.open(completed.replace(/(state=)[^&]+/, `$1${state}`))
    expect([state, status]).toEqual([expect.stringMatching(/^[\w-]{20,}$/), 403])
  })

  it('is refused to strangers, who get no account', async () => {
    const browser = await open()
    const { status, body } = await browser.signIn(login('stranger'))
    expect([status, body]).toEqual([403, expect.stringContaining('You are not a member')])
    expect((await browser.open('/live/overview')).url.pathname).toBe('/sign-in')
  })
})

it.each(ROLES)('each role opens its own pages and no other: %s', async role => {
  const { browser } = await signedIn(`role-${role}`, role)
  const { body } = await browser.open('/live/overview')
  const linked = new Set([...body.matchAll(/href="\/live\/([a-z-]+)"/g)].map(([, path]) => path))
  const pages = pageDefinitions().map(({ name }) => name)
    .filter(name => /^GET \/:mode\/[a-z-]+$/.test(name))
    .map(name => name.replace('GET /:mode/', '')).filter(path => path !== 'live')
  const statuses = await Promise.all(pages.map(async path =>
    [path, (await browser.open(`/live/${path}`)).status]))
  expect(statuses).toEqual(pages.map(path => [path, linked.has(path) ? 200 : 403]))
  expect([...linked].toSorted()).toEqual(SECTIONS[role].toSorted())
})

const SECTIONS: Readonly<Record<Role, string[]>> = {
  owner: ['account', 'overview', 'jobs', 'upload', 'lists', 'balance', 'usage', 'keys', 'webhooks',
    'settings', 'people', 'access-log'],
  developer: ['account', 'overview', 'jobs', 'upload', 'lists', 'usage', 'keys', 'webhooks',
    'settings'],
  finance: ['account', 'overview', 'balance', 'usage'],
  'read-only': ['account', 'overview', 'jobs', 'usage'],
}

it('a change of a person applies to the next request: role, end of sessions, removal', async () => {
  const { person, browser } = await signedIn('emil', 'developer')
  const other = await open()
  await other.signIn(login('emil'))
  expect((await browser.open('/live/keys')).status).toBe(200)
  await environment.people.changeRole(environment.orgId, person.id, 'finance')
  expect((await browser.open('/live/keys')).status).toBe(403)
  expect((await browser.open('/live/balance')).status).toBe(200)

  const { url } = await browser.submit('/live/account/sign-out-everywhere', '/live/account')
  expect(url.search).toBe('?notice=left-everywhere')
  expect((await other.open('/live/overview')).url.pathname).toBe('/sign-in')

  await other.signIn(login('emil'))
  await environment.people.remove(environment.orgId, person.id)
  expect((await other.open('/live/overview')).url.pathname).toBe('/sign-in')
  expect((await other.signIn(login('emil'))).status).toBe(403)
})

it('the provider for tries ' +
  'prints the settings of the page, and a warning of nothing but its form', async () => {
  await signedIn('jon', 'owner')
  const lines = environment.providerOutput().trim().split('\n')
  expect(lines.filter(line => line.includes('OIDC_ISSUER='))).toHaveLength(1)
  const warnings = lines.filter(line => line.startsWith('oidc-provider'))
  expect(warnings).toEqual([expect.stringContaining('devInteractions')])
})
