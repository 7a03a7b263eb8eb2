import { describe, expect, it, vi } from 'vitest'
import { pageDefinitions } from '../../../services/page/app.ts'
import { type Access, needsRecent, rolesWith } from '../../../services/page/context.ts'
import {
  ended, jobLike, openPage, recordingClient, type Visitor,
} from '../../support/page/page-doubles.ts'
import { NO_USAGE } from '../ingest/doubles.ts'

/** Who sends a request: nobody, an operator, the holder of a link, or a person with a role. */
const SENDERS =
  ['nobody', 'operator', 'link', 'owner', 'developer', 'finance', 'read-only'] as const
type Sender = typeof SENDERS[number]

/** Whether a sender reaches a route: `+` does, `!` only with a recent authentication, `-` not. */
function reachedBy (who: Sender, access: Access): '+' | '!' | '-' {
  if (access === 'everybody') return '+'
  if (who === 'nobody') return '-'
  if (access === 'signed-in') return '+'
  if (access === 'operator' || who === 'operator') return access === who ? '+' : '-'
  if (access === 'person') return who === 'link' ? '-' : '+'
  if (!rolesWith(access).split(' or ').includes(who === 'link' ? 'owner' : who)) return '-'
  return needsRecent(access) ? '!' : '+'
}

const REACHED = 299
const HOUR_MS = 3_600_000

/** Sends requests to a page that answers 299 instead of running a handler. */
async function openFor (who: Sender, ageMs: number) {
  const { app, ask, signIn } = openPage()
  app.addHook('preValidation', async (_request, reply) => reply.code(REACHED).send('reached'))
  const browser = who === 'nobody' ? undefined : await signIn(who, ageMs)
  return async (route: string) => {
    const [method = '', path = ''] = route.split(' ')
    return await ask(path.replace(':mode', 'live').replaceAll(/:\w+/g, 'x_1'), {
      method: method as 'GET',
      headers: {
        origin: 'http://h',
        cookie: browser?.cookie ?? '',
        'x-form-token': browser?.session.token ?? '',
      },
    })
  }
}

describe('the access of each route', () => {
  it('is that of its GET for HEAD', async () => {
    const { ask } = openPage()
    expect((await ask('/live/keys', { method: 'HEAD' })).statusCode).toBe(303)
    expect((await ask('/sign-in', { method: 'HEAD' })).statusCode).toBe(200)
  })

  it.each([
    ['GET', '/:mode/new', {}, 'route GET /:mode/new has no access in its config'],
    ['POST', '/:mode/new', { access: 'person' }, 'route POST /:mode/new has no records'],
    ['GET', '/new.csv', { access: 'person' }, 'route GET /new.csv has no records'],
  ] as const)('is a condition of the start: %s %s with %o fails it',
    async (method, url, config, message) => {
      await expect(openPage().app.register(async inner => {
        inner.route({ method, url, config, handler: async () => 'open' })
      })).rejects.toThrow(message)
    })

  it.each(SENDERS)('is as its definition says for %s', async who => {
    const answers = new Map<string, readonly number[]>()
    for (const ageMs of [0, HOUR_MS]) {
      const ask = await openFor(who, ageMs)
      for (const { name } of pageDefinitions()) {
        answers.set(name, [...answers.get(name) ?? [], (await ask(name)).statusCode])
      }
    }
    for (const { name: route, access } of pageDefinitions()) {
      const reached = reachedBy(who, access)
      const statuses = answers.get(route) ?? []
      const isReached = statuses.map(status => status === REACHED)
      const expected = { '+': [true, true], '!': [true, false], '-': [false, false] }[reached]
      expect([route, isReached]).toEqual([route, expected])
      if (reached === '-') expect([route, ...statuses]).toEqual([route, ...denied(who, route)])
      if (reached === '!') expect([route, statuses[1]]).toEqual([route, 403])
    }
  })
})

/** Both times: sign in, 404 for another kind of visitor, 403 for another role. */
function denied (who: Sender, route: string): readonly number[] {
  const last = route.split('/').at(-1) ?? ''
  const ofScripts = ['live', 'quote', 'estimate', 'sheet', 'preview', 'job', 'file', 'summary']
  const isOfScripts = ofScripts.includes(last)
  const isOtherKind = who === 'operator' || /\/(pipeline|mail-servers)/.test(route) ||
    (who === 'link' && route.includes('/account'))
  const status = who === 'nobody' ? isOfScripts ? 401 : 303 : isOtherKind ? 404 : 403
  return [status, status]
}

describe('a refusal', () => {
  it.each([
    ['names the roles that are needed', 'read-only', 'GET /:mode/keys',
      'This needs the role owner or developer; yours is read-only.'],
    ['offers a person to authenticate again, for the page of the form', 'owner',
      'POST /:mode/people/:person/role',
      'href="/sign-in/start?again=yes&amp;back=%2Flive%2Fpeople"'],
    ['offers only a new link to the holder of an old link', 'link', 'POST /:mode/keys',
      'Ask the operator of this installation for a new link'],
  ] as const)('%s', async (_what, who, route, text) => {
    const { body } = await (await openFor(who, HOUR_MS))(route)
    expect(body).toContain(text)
    expect(body.includes('/sign-in/start')).toBe(who === 'owner')
  })

  it('comes for paths of no mode, too', async () => {
    expect((await (await openPage().signIn()).get('/other/settings')).statusCode).toBe(404)
  })
})

describe('pages that roles share', () => {
  /** A page with an ended job, and what its pages have read from the REST interface. */
  function openWithJob () {
    const balance = { balanceMicros: 1, reservedMicros: 0, availableMicros: 1, currency: 'USD' }
    const job = jobLike(ended)
    const { calls, client } = recordingClient({
      balance, jobsPage: { data: [job] }, job, usage: { data: [], total: NO_USAGE },
    })
    return { calls, ...openPage({ client }) }
  }

  it('read nothing that a role may not see', async () => {
    const { calls, signIn } = openWithJob()
    for (const role of ['read-only', 'finance'] as const) {
      const browser = await signIn(role)
      for (const url of ['/live/overview', '/live/jobs/job_1']) await browser.get(url)
    }
    expect(calls.map(([name]) => name)).toEqual(['usage', 'jobsPage', 'job', 'balance', 'usage'])
  })

  it.each([
    ['finance', '/live/overview', ['Latest jobs', 'Verify a file']],
    ['read-only', '/live/overview', ['Available', 'Verify a file']],
    ['read-only', '/live/jobs/job_1', ['Results', 'Counting', 'Webhook deliveries', 'Erase']],
    ['developer', '/live/settings', ['Freshness']],
  ] as const)('offer %s on %s nothing of %o', async (role, url, hidden) => {
    const text = await (await openWithJob().signIn(role)).read(url)
    expect(hidden.filter(name => text.includes(name))).toEqual([])
  })

  it.each([
    ['owner', '/live/keys', 'confirm'], ['owner', '/live/settings', 'confirm'],
    ['owner', '/live/people', 'confirm'], ['owner', '/live/account', ''],
    ['finance', '/live/overview', ''], ['link', '/live/keys', 'sign in with a new link'],
  ] as const)('tell %s on %s before a form needs a new authentication: "%s"',
    async (who, url, advice) => {
      const { signIn } = openWithJob()
      const [late, fresh] = [await signIn(who, HOUR_MS), await signIn()]
      const { body } = await late.get(url)
      const [said = ''] = /sign in with a new link|confirm(?= that it is you)/.exec(body) ?? []
      expect(said).toBe(advice)
      expect((await fresh.get(url)).body).not.toContain('aria-label="Confirmation"')
    })
})

it.each([['owner', 300_000], ['link', 600_000]] as const)(
  'a session of %s counts as recent for %d ms', async (who: Visitor, recentMs) => {
    vi.useFakeTimers({ toFake: ['Date'] })
    try {
      const { signIn } = openPage()
      const { send } = await signIn(who, recentMs)
      expect((await send('/live/keys')).statusCode).toBe(400)
      vi.setSystemTime(Date.now() + 1)
      expect((await send('/live/keys')).statusCode).toBe(403)
    } finally {
      vi.useRealTimers()
    }
  })
