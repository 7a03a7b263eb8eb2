import { afterEach, expect, it } from 'vitest'
import type { FastifyInstance } from 'fastify'
import { createPage } from '../../../services/page/app.ts'
import { subjectOf } from '../../../services/page/provider-sign-in.ts'
import { createPageDeps, ORGANIZATION } from '../../support/page/page-doubles.ts'

const opened: FastifyInstance[] = []
afterEach(async () => { await Promise.all(opened.splice(0).map(app => app.close())) })

const identity = { issuer: 'https://login.example', subject: '1', email: 'ann@example.com' }
const AUTHENTICATED_AT_MS = 5

/** A person of two organizations, who is signed in to the first one. */
async function open () {
  const deps = createPageDeps()
  for (const orgId of [ORGANIZATION.id, 'org_2']) {
    await deps.people.add(orgId, { email: identity.email, role: 'owner', createdBy: '' })
  }
  const [membership] = await deps.people.membershipsOf(identity)
  const { id, session } =
    await deps.sessions.create(subjectOf(membership!), AUTHENTICATED_AT_MS)
  const app = createPage({ deps, trustedProxies: [] })
  opened.push(app)
  const send = (path: string, form: Record<string, string> = {}) => app.inject({
    method: 'POST',
    url: `/live/account/${path}`,
    headers: {
      host: 'h',
      origin: 'http://h',
      cookie: `session=${id}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    payload: String(new URLSearchParams({ form_token: session.token, ...form })),
  })
  return { deps, send }
}

it('a change of organization is no new authentication, and leads to no other one', async () => {
  const { deps, send } = await open()
  const refused = await send('organization', { org: 'org_3' })
  expect([refused.statusCode, refused.cookies]).toEqual([404, []])
  const { cookies: [cookie] } = await send('organization', { org: 'org_2' })
  expect(await deps.sessions.find(cookie?.value ?? '')).toMatchObject({
    subject: { orgId: 'org_2' }, authenticatedAtMs: AUTHENTICATED_AT_MS,
  })
})

it('signing out everywhere ends the sessions in all organizations', async () => {
  const { deps, send } = await open()
  expect((await send('sign-out-everywhere')).statusCode).toBe(303)
  const people = [await deps.people.list(ORGANIZATION.id), await deps.people.list('org_2')].flat()
  expect(people.map(({ generation }) => generation)).toEqual([1, 1])
})
