import { describe, expect, it } from 'vitest'
import { ROLES, type Role } from '../../services/accounts/people.ts'
import { secretDigest } from '../../services/accounts/sessions.ts'
import { pageDefinitions } from '../../services/page/app.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { loginOf } from '../support/page/openid-provider.ts'
import { startPeopleEnvironment } from '../support/page/people.ts'
/** What a request got in the end: the page after redirects and refreshes. */
type Loaded = {
  readonly url: URL
  readonly status: number
  readonly body: string
  /** The addresses of all requests, in order. */
  readonly trail: readonly string[]
}

type Sending = { readonly url: URL, readonly from?: URL, readonly form?: URLSearchParams }

const MAX_STEPS = 20

/**
 * A browser without a screen: it keeps cookies by host, sends those that are SameSite=Strict only
 * within a site, and follows redirects and refreshes.
 */
function openHttpBrowser (home: string) {
  const jar = createCookieJar()
  const browser = {
    cookies: jar.cookies,
    open: (path: string): Promise<Loaded> => send(jar, { url: new URL(path, home) }),

    /** Submits a form of the page, with the token of the session. */
    submit: async (path: string, fields: Readonly<Record<string, string>>): Promise<Loaded> => {
      const { body } = await browser.open('/live/overview')
      const [, token = ''] = /name="form_token" value="([\w-]+)"/.exec(body) ?? []
      const form = new URLSearchParams({ form_token: token, ...fields })
      return await send(jar, { url: new URL(path, home), from: new URL(home), form })
    },

    /** Fills in the form of the provider that a sign-in led to. */
    logIn: async (loaded: Loaded, login: string): Promise<Loaded> => {
      const [, action = ''] = /action="([^"]+)"/.exec(loaded.body) ?? []
      const form = new URLSearchParams({ prompt: 'login', login, password: 'any' })
      return await send(jar, { url: new URL(action, loaded.url), from: loaded.url, form })
    },

    /** Signs in through the provider, which may still know this browser. */
    signIn: async (login: string): Promise<Loaded> => {
      const loaded = await browser.open('/sign-in/start')
      return loaded.url.origin === home ? loaded : await browser.logIn(loaded, login)
    },
  }
  return browser
}

type Jar = ReturnType<typeof createCookieJar>

function createCookieJar () {
  const cookies = new Map<string, { value: string, isStrict: boolean }>()
  return {
    /** By host and name. */
    cookies,

    sentTo: (url: URL, isSameSite: boolean): string => [...cookies]
      .filter(([key, { isStrict }]) => key.startsWith(`${url.host} `) && (isSameSite || !isStrict))
      .map(([key, { value }]) => `${key.split(' ')[1]}=${value}`).join('; '),

    keep: (url: URL, { headers }: Response): void => {
      for (const line of headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        const isStrict = /samesite=strict/i.test(line)
        const isEnded = value === '' || /expires=Thu, 01 Jan 1970|max-age=0/i.test(line)
        if (isEnded) cookies.delete(`${url.host} ${name}`)
        else cookies.set(`${url.host} ${name}`, { value, isStrict })
      }
    },
  }
}

async function send (jar: Jar, { from, form, ...start }: Sending): Promise<Loaded> {
  const trail: string[] = []
  let [{ url }, body] = [start, form]
  let isSameSite = from === undefined || from.hostname === url.hostname
  while (trail.length < MAX_STEPS) {
    trail.push(url.href)
    const response = await fetch(url, {
      redirect: 'manual',
      headers: {
        cookie: jar.sentTo(url, isSameSite),
        ...body && from && { origin: from.origin, 'sec-fetch-site': 'same-origin' },
      },
      ...body && { body, method: 'POST' },
    })
    jar.keep(url, response)
    const text = await response.text()
    const [, refresh] = /http-equiv="refresh" content="0;url=([^"]+)"/.exec(text) ?? []
    const location = response.headers.get('location') ?? refresh?.replaceAll('&amp;', '&')
    if (location === undefined) return { url, status: response.status, body: text, trail }
    const next = new URL(location, url)
    // A refresh is a navigation that this page starts; a redirect belongs to the one before it.
    isSameSite = (refresh !== undefined || isSameSite) && next.hostname === url.hostname
    url = next
    body = undefined
  }
  throw new Error(`more than ${MAX_STEPS} steps: ${trail.join(' ')}`)
}

const environment = closeAfterAll(await startPeopleEnvironment())
const open = () => openHttpBrowser(environment.pageUrl)
const withoutProvider = [await open().open('/sign-in/start'), await open().open('/sign-in')]
await environment.startProvider()

const emailOf = (name: string) => `${name}@people.example`
const login = (name: string) => loginOf(name, emailOf(name))

/** A new person of the organization, who has signed in. */
async function signedIn (name: string, role: Role) {
  const person = await environment.add(emailOf(name), role)
  const browser = open()
  const loaded = await browser.signIn(login(name))
  return { person, browser, loaded }
}

describe('a provider that is down', () => {
  it('is reported with 503, and links are offered', () => {
    const [start, signIn] = withoutProvider
    expect([start?.status, start?.body])
      .toEqual([503, expect.stringContaining('The sign-in provider does not answer')])
    expect([start?.body, signIn?.body])
      .toEqual([expect.stringContaining('with a link'), expect.stringContaining('with a link')])
  })
})

describe('a sign-in through a provider', () => {
  it('leads to the overview, with a cookie that is not sent from other sites', async () => {
    const { loaded, browser } = await signedIn('ann', 'owner')
    expect([loaded.status, loaded.url.pathname]).toEqual([200, '/live/overview'])
    expect(loaded.body).toContain(emailOf('ann'))
    const paths = loaded.trail.map(address => new URL(address).pathname)
    expect(paths.slice(-3)).toEqual(['/sign-in/callback', '/sign-in/complete', '/live/overview'])
    expect([...browser.cookies].filter(([key]) => key.includes(new URL(environment.pageUrl).host)))
      .toEqual([[expect.stringContaining(' session'), {
        value: expect.any(String), isStrict: true,
      }]])
  })

  it('is refused to strangers, who get no account', async () => {
    const browser = open()
    const { status, body } = await browser.signIn(login('stranger'))
    expect([status, body]).toEqual([403, expect.stringContaining('You are not a member')])
    expect(body).toContain(emailOf('stranger'))
    expect((await browser.open('/live/overview')).url.pathname).toBe('/sign-in')
  })

  it('needs a verified address the first time', async () => {
    await environment.add(emailOf('vera'), 'developer')
    const { status, body } = await open().signIn(loginOf('unverified', emailOf('vera')))
    expect([status, body])
      .toEqual([403, expect.stringContaining('does not confirm your e-mail address')])
  })

  it('is refused to another account that later has the same address', async () => {
    await signedIn('bob', 'developer')
    const { status } = await open().signIn(loginOf('next-bob', emailOf('bob')))
    expect(status).toBe(403)
    expect((await open().signIn(login('bob'))).status).toBe(200)
  })

  it('cannot be completed with another state, twice, or in another browser', async () => {
    await environment.add(emailOf('carl'), 'developer')
    const browser = open()
    const returned = await browser.signIn(login('carl'))
    const complete = new URL(returned.trail.find(one => one.includes('/sign-in/complete')) ?? '')
    const path = `${complete.pathname}${complete.search}`
    for (const attacked of [browser, open()]) {
      const { status, body } = await attacked.open(path)
      expect([status, body]).toEqual([403, expect.stringContaining('did not succeed')])
    }
    const other = open()
    const form = await other.open('/sign-in/start')
    complete.searchParams.set('state', 'forged')
    expect((await other.open(`${complete.pathname}${complete.search}`)).status).toBe(403)
    // The code of an earlier sign-in under the state of this one.
    const fresh = open()
    const { url } = await fresh.open('/sign-in/start')
    expect(url.host).toBe(form.url.host)
    const state = new URL((await fresh.open('/sign-in/start')).trail
      .find(one => one.includes('state=')) ?? '').searchParams.get('state') ?? ''
    complete.searchParams.set('state', state)
    expect((await fresh.open(`${complete.pathname}${complete.search}`)).status).toBe(403)
  })

  it('returns to pages of this site only', async () => {
    await environment.add(emailOf('dora'), 'developer')
    for (const [back, path] of [
      ['/live/keys', '/live/keys'],
      ['https://evil.example/live/keys', '/live/overview'],
      ['//evil.example', '/live/overview'],
      ['/live/keys/../../x', '/live/overview'],
    ] as const) {
      const browser = open()
      const form = await browser.open(`/sign-in/start?back=${encodeURIComponent(back)}`)
      const { url } = await browser.logIn(form, login('dora'))
      expect([back, url.origin, url.pathname]).toEqual([back, environment.pageUrl, path])
    }
  })
})

describe('each role', () => {
  it.each(ROLES)('opens its own pages and no other: %s', async role => {
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
})

const SECTIONS: Readonly<Record<Role, string[]>> = {
  owner: ['account', 'overview', 'jobs', 'upload', 'lists', 'balance', 'usage', 'keys', 'webhooks',
    'settings', 'people', 'access-log'],
  developer: ['account', 'overview', 'jobs', 'upload', 'lists', 'usage', 'keys', 'webhooks',
    'settings'],
  finance: ['account', 'overview', 'balance', 'usage'],
  'read-only': ['account', 'overview', 'jobs', 'usage'],
}

describe('a change of a person', () => {
  it('applies to the next request: role, end of sessions, removal', async () => {
    const { person, browser } = await signedIn('emil', 'developer')
    const other = open()
    await other.signIn(login('emil'))
    expect((await browser.open('/live/keys')).status).toBe(200)
    await environment.people.changeRole(environment.orgId, person.id, 'finance')
    expect((await browser.open('/live/keys')).status).toBe(403)
    expect((await browser.open('/live/balance')).status).toBe(200)

    const { url } = await browser.submit('/live/account/sign-out-everywhere', {})
    expect(url.search).toBe('?notice=left-everywhere')
    expect((await other.open('/live/overview')).url.pathname).toBe('/sign-in')

    await other.signIn(login('emil'))
    await environment.people.remove(environment.orgId, person.id)
    expect((await other.open('/live/overview')).url.pathname).toBe('/sign-in')
    expect((await other.signIn(login('emil'))).status).toBe(403)
  })

  it('is made by an owner on the page, but not of the last owner', async () => {
    const orgId = await environment.newOrganization()
    const owner = await environment.add(emailOf('fay'), 'owner', orgId)
    const browser = open()
    await browser.signIn(login('fay'))
    await confirmed(browser, 'fay')
    const added = await browser.submit('/live/people', {
      email: emailOf('gus'), role: 'read-only',
    })
    expect(added.body).toContain(emailOf('gus'))
    const [, gus] = await environment.people.list(orgId)
    expect(gus).toMatchObject({ role: 'read-only', createdBy: emailOf('fay') })
    await browser.submit(`/live/people/${gus?.id}/role`, { role: 'developer' })
    const refused = await browser.submit(`/live/people/${owner.id}/remove`, {})
    expect([refused.status, refused.body])
      .toEqual([400, expect.stringContaining('This is the last owner of the organization')])
    const visitor = open()
    await visitor.signIn(login('gus'))
    expect((await visitor.open('/live/keys')).status).toBe(200)
    await browser.submit(`/live/people/${gus?.id}/remove`, {})
    expect((await visitor.open('/live/keys')).url.pathname).toBe('/sign-in')
  })
})

/** Authenticates again, as before a change of secrets and people. */
async function confirmed (browser: ReturnType<typeof open>, name: string, page = 'people') {
  const form = await browser.open(`/sign-in/start?again=yes&back=%2Flive%2F${page}`)
  return await browser.logIn(form, login(name))
}

describe('a change of keys', () => {
  it('needs an authentication of the last five minutes, which makes a new session', async () => {
    const { browser, loaded } = await signedIn('hal', 'developer')
    const { host } = new URL(environment.pageUrl)
    const sessionId = () => browser.cookies.get(`${host} session`)?.value ?? ''
    const before = sessionId()
    expect(loaded.status).toBe(200)
    const create = (name: string) => browser.submit('/live/keys', {
      nonce: `${name} ${sessionId()}`, scope: 'jobs:read', name, days: '',
    })
    expect((await create('after the sign-in')).body).toContain('Your new live key')
    await environment.age(before, 301_000)
    const refused = await create('too late')
    expect([refused.status, refused.body])
      .toEqual([403, expect.stringContaining('Confirm that it is you')])
    expect(refused.body).toContain('href="/sign-in/start?again=yes&amp;back=%2Flive%2Fkeys"')

    const again = await confirmed(browser, 'hal', 'keys')
    expect([again.status, again.url.pathname]).toEqual([200, '/live/keys'])
    expect(sessionId()).not.toBe(before)
    expect(await environment.redis.exists(`page:session:${secretDigest(before)}`)).toBe(0)
    const made = await create('by hal')
    expect(made.body).toContain('Your new live key')
    const [key] = await environment.keys()
    expect(key).toMatchObject({
      name: 'by hal', createdBy: await environment.idOf(emailOf('hal')),
    })
    expect((await browser.open('/live/keys')).body).toContain(`>${emailOf('hal')}</span>`)

    await environment.age(sessionId(), 301_000)
    expect((await create('too late')).status).toBe(403)
    expect((await browser.open('/live/keys')).status).toBe(200)
  })
})

describe('a person of several organizations', () => {
  it('chooses one after the sign-in, and may change it', async () => {
    const second = await environment.newOrganization()
    await environment.add(emailOf('ida'), 'owner')
    await environment.add(emailOf('ida'), 'finance', second)
    const browser = open()
    const { url, body } = await browser.signIn(login('ida'))
    expect(url.pathname).toBe('/live/account')
    const shown = /· (org_\w+) ·/.exec(body)?.[1] ?? ''
    const other = shown === second ? environment.orgId : second
    const opened = await browser.submit('/live/account/organization', { org: other })
    expect(opened.body).toContain(`· ${other} ·`)
    expect((await browser.submit('/live/account/organization', { org: 'org_none' })).status)
      .toBe(404)
    // A new authentication stays in the chosen organization.
    const again = await confirmed(browser, 'ida')
    expect(again.url.pathname).toBe('/live/people')
    expect((await browser.open('/live/overview')).body).toContain(`· ${other} ·`)
  })
})

describe('the provider for tries', () => {
  it('prints the settings of the page, and a warning of nothing but its form', async () => {
    await signedIn('jon', 'owner')
    const lines = environment.providerOutput().trim().split('\n')
    expect(lines.filter(line => line.includes('OIDC_ISSUER='))).toHaveLength(1)
    const warnings = lines.filter(line => line.startsWith('oidc-provider'))
    expect(warnings).toEqual([expect.stringContaining('devInteractions')])
  })
})

describe('a provider that goes down later', () => {
  it('is reported with 503 too, a second after a sign-in began', async () => {
    expect((await open().open('/sign-in/start')).status).toBe(200)
    await environment.stopProvider()
    await eventually(async () => {
      const { status, url } = await open().open('/sign-in/start')
      expect([status, url.origin]).toEqual([503, environment.pageUrl])
    })
  })
})
