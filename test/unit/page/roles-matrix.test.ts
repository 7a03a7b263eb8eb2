import { afterEach, describe, expect, it } from 'vitest'
import type { FastifyInstance } from 'fastify'
import type { Role } from '../../../services/accounts/people.ts'
import { createPage } from '../../../services/page/app.ts'
import { requesterOf } from '../../../services/page/access.ts'
import { isRecent, roleOf } from '../../../services/page/context.ts'
import { isStillSignedIn } from '../../../services/page/guard.ts'
import { assetPath } from '../../../services/page/layout.ts'
import { type Access, mayDo, needsRecent } from '../../../services/page/roles.ts'
import { pageDefinitions } from '../../../services/page/routes.ts'
import {
  createPageDeps, ended, jobLike, ORGANIZATION, visitLike,
} from '../../support/page/page-doubles.ts'

/** Who sends a request: nobody, an operator, the holder of a link, or a person with a role. */
const VISITORS =
  ['nobody', 'operator', 'link', 'owner', 'developer', 'finance', 'read-only'] as const
type Sender = typeof VISITORS[number]

/** Whether a visitor reaches a route: `+` does, `!` only with a recent authentication, `-` not. */
function reachedBy (who: Sender, access: Access): '+' | '!' | '-' {
  if (access === 'everybody') return '+'
  if (who === 'nobody') return '-'
  if (access === 'signed-in') return '+'
  if (access === 'operator' || who === 'operator') return access === who ? '+' : '-'
  if (access === 'person') return who === 'link' ? '-' : '+'
  if (!mayDo(who === 'link' ? 'owner' : who, access)) return '-'
  return needsRecent(access) ? '!' : '+'
}

const REACHED = 299
const HOUR_MS = 3_600_000

const opened: FastifyInstance[] = []
afterEach(async () => { await Promise.all(opened.splice(0).map(app => app.close())) })

/** A page that answers 299 instead of running a handler, and a session of a visitor. */
async function open (who: Sender, authenticatedAtMs: number) {
  const deps = createPageDeps()
  const app = createPage({ deps, trustedProxies: [] })
  app.addHook('preValidation', async (_request, reply) => reply.code(REACHED).send('reached'))
  opened.push(app)
  const made = who === 'nobody' ? undefined : await sessionOf(deps, who, authenticatedAtMs)
  return async (route: string) => {
    const [method = '', path = ''] = route.split(' ')
    const url = path.replace(':mode', 'live').replaceAll(/:\w+/g, 'x_1')
    const headers = {
      host: 'h',
      origin: 'http://h',
      cookie: `session=${made?.id ?? ''}`,
      'x-form-token': made?.session.token ?? '',
    }
    return await app.inject({ method: method as 'GET', url, headers })
  }
}

async function sessionOf (
  deps: ReturnType<typeof createPageDeps>, who: Exclude<Sender, 'nobody'>, atMs: number
) {
  const { id: orgId } = ORGANIZATION
  if (who === 'operator') return await deps.sessions.create({ kind: who }, atMs)
  if (who === 'link') return await deps.sessions.create({ kind: 'customer', orgId }, atMs)
  const made = await deps.people.add(orgId, {
    email: `${who}@example.com`, role: who, createdBy: 'operator',
  })
  const person = { id: made?.id ?? '', generation: 0 }
  return await deps.sessions.create({ kind: 'customer', orgId, person }, atMs)
}

describe('the access of each route', () => {
  it('is that of its GET for HEAD, and everybody may read static files', async () => {
    const app = createPage({ deps: createPageDeps(), trustedProxies: [] })
    opened.push(app)
    expect((await app.inject({ method: 'HEAD', url: '/live/keys' })).statusCode).toBe(303)
    expect((await app.inject({ method: 'HEAD', url: '/sign-in' })).statusCode).toBe(200)
    expect((await app.inject({ url: assetPath('page.css') })).statusCode).toBe(200)
  })

  it.each([
    ['GET', '/:mode/new', {}, 'route GET /:mode/new has no access in its config'],
    ['POST', '/:mode/new', { access: 'person' }, 'route POST /:mode/new has no records'],
    ['GET', '/new.csv', { access: 'person' }, 'route GET /new.csv has no records'],
  ] as const)('is a condition of the start: %s %s with %o fails it',
    async (method, url, config, message) => {
      const app = createPage({ deps: createPageDeps(), trustedProxies: [] })
      opened.push(app)
      await expect(app.register(async inner => {
        inner.route({ method, url, config, handler: async () => 'open' })
      })).rejects.toThrow(message)
    })

  it.each(VISITORS)('is as its definition says for %s', async who => {
    const [fresh, late] = [await open(who, Date.now()), await open(who, Date.now() - HOUR_MS)]
    for (const { name: route, access } of pageDefinitions()) {
      const reached = reachedBy(who, access)
      const statuses = [(await fresh(route)).statusCode, (await late(route)).statusCode]
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
  const isOfScripts = ['live', 'quote', 'job', 'figures'].includes(route.split('/').at(-1) ?? '')
  const isOtherKind = who === 'operator' || route.includes('/pipeline') ||
    (who === 'link' && route.includes('/account'))
  const status = who === 'nobody' ? isOfScripts ? 401 : 303 : isOtherKind ? 404 : 403
  return [status, status]
}

describe('a refusal', () => {
  it('names the roles that are needed', async () => {
    const answer = await (await open('read-only', Date.now()))('GET /:mode/keys')
    expect(answer.body).toContain('This needs the role owner or developer; yours is read-only.')
  })

  it('offers a person to authenticate again, and to return to the page of the form', async () => {
    const send = await open('owner', Date.now() - HOUR_MS)
    const answer = await send('POST /:mode/people/:person/role')
    expect(answer.body).toContain('Confirm that it is you')
    expect(answer.body)
      .toContain('href="/sign-in/start?again=yes&amp;back=%2Flive%2Fpeople"')
  })

  it('offers only a new link to the holder of an old link',
    async () => {
      const answer = await (await open('link', Date.now() - HOUR_MS))('POST /:mode/keys')
      expect(answer.body).toContain('Ask the operator of this installation for a new link')
      expect(answer.body).not.toContain('/sign-in/start')
    })
})

it('pages that roles share read nothing that a role may not see', async () => {
  const read: string[] = []
  const reading = (name: string, value: unknown) => async () => {
    read.push(name)
    return value
  }
  const deps = createPageDeps({
    balance: reading('balance', undefined),
    jobsPage: reading('jobs', { data: [] }),
    job: reading('job', jobLike(ended)),
    resultsPage: reading('results', { data: [] }),
    deliveries: reading('deliveries', []),
  })
  const app = createPage({ deps, trustedProxies: [] })
  opened.push(app)
  for (const role of ['read-only', 'finance'] as const) {
    const { id } = await sessionOf(deps, role, Date.now())
    for (const url of ['/live/overview', '/live/jobs/job_1']) {
      await app.inject({ url, headers: { cookie: `session=${id}`, host: 'h' } })
    }
  }
  expect(read).toEqual(['jobs', 'job', 'balance'])
})

describe('a session of a person', () => {
  const person = async (role: Role = 'developer') => {
    const deps = createPageDeps()
    const { id: orgId } = ORGANIZATION
    await deps.people.add(orgId, { email: 'owner@example.com', role: 'owner', createdBy: '' })
    const made = await deps.people.add(orgId, { email: 'p@example.com', role, createdBy: '' })
    if (made === undefined) throw new Error('there is no organization')
    const { id, session } = await deps.sessions.create({
      kind: 'customer', orgId, person: { id: made.id, generation: made.generation },
    })
    return { deps, orgId, made, visitor: { id, session, person: made } }
  }

  it('ends when the person is removed or signed out everywhere', async () => {
    for (const end of ['remove', 'endSessions'] as const) {
      const { deps, orgId, made, visitor } = await person()
      const app = createPage({ deps, trustedProxies: [] })
      opened.push(app)
      const status = async () => (await app.inject({
        url: '/live/settings', headers: { cookie: `session=${visitor.id}`, host: 'h' },
      })).statusCode
      expect([await status(), await isStillSignedIn(deps, visitor)]).toEqual([200, true])
      await deps.people[end](orgId, made.id)
      expect([await status(), await isStillSignedIn(deps, visitor)]).toEqual([303, false])
    }
  })

  it('has a changed role from the next request on, and its streams end', async () => {
    const { deps, orgId, made, visitor } = await person()
    await deps.people.changeRole(orgId, made.id, 'finance')
    expect(await isStillSignedIn(deps, visitor)).toBe(false)
    const app = createPage({ deps, trustedProxies: [] })
    opened.push(app)
    const answer = await app.inject({
      url: '/live/settings', headers: { cookie: `session=${visitor.id}`, host: 'h' },
    })
    expect(answer.statusCode).toBe(403)
  })

  it('says who acts', async () => {
    const { visitor, made } = await person()
    expect([requesterOf(visitor).actor, roleOf(visitor)])
      .toEqual([{ kind: 'person', id: made.id }, 'developer'])
    const link = visitLike().visitor
    expect([requesterOf(link).actor, roleOf(link)])
      .toEqual([{ kind: 'link', id: expect.stringMatching(/^[0-9a-f]{16}$/) }, 'owner'])
  })

  it('counts as recent for five minutes, that of a link for ten', async () => {
    const { visitor } = await person()
    const link = visitLike().visitor
    const since = (ms: number, one: typeof visitor | typeof link) =>
      isRecent(one, one.session.authenticatedAtMs + ms)
    expect([since(300_000, visitor), since(300_001, visitor)]).toEqual([true, false])
    expect([since(600_000, link), since(600_001, link)]).toEqual([true, false])
  })
})
