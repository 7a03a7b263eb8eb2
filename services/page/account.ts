import type { RouteOptions } from 'fastify'
import { describeAccess } from '../accounts/access-log/requests.ts'
import type { Membership } from '../accounts/people.ts'
import { customerRoutes, field, type PageDeps, type Visit } from './context.ts'
import { html, type Html } from './html.ts'
import { customerPage, sendHtml, table, tokenField } from './layout.ts'
import { PageError } from './page-error.ts'
import { subjectOf } from './provider-sign-in.ts'
import { endSession, startSession } from './sign-in.ts'

/** The account of a person: their organizations, and the end of all their sessions. */
export function accountRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/account', { access: 'person' }, async ({ visit, reply }) => {
      const memberships = await membershipsOf(deps, visit)
      const organizations = await Promise.all(memberships.map(async ({ orgId, person }) => ({
        orgId, role: person.role, name: (await deps.organizations.find(orgId))?.name ?? orgId,
      })))
      return sendHtml(reply, accountView(visit, organizations))
    }),
    route('POST', '/:mode/account/organization', {
      // The session of the other organization is recorded as it starts.
      access: 'person', records: null,
    }, async ({ visit, request, reply }) => {
      const wanted = field(request, 'org')
      const membership = (await membershipsOf(deps, visit)).find(({ orgId }) => orgId === wanted)
      if (membership === undefined) throw new PageError('not_found')
      const { authenticatedAtMs } = visit.visitor.session
      await startSession(deps, { request, reply }, {
        subject: subjectOf(membership), authenticatedAtMs,
      })
      return reply.redirect(`/${visit.tenant.mode}/overview`, 303)
    }),
    route('POST', '/:mode/account/sign-out-everywhere', {
      access: 'person', records: 'person.signed_out',
    }, async ({ visit, request, reply }) => {
      describeAccess(request, { target: visit.visitor.person?.id })
      for (const { orgId, person } of await membershipsOf(deps, visit)) {
        await deps.people.endSessions(orgId, person.id)
      }
      await endSession(deps, request, reply)
      return reply.redirect('/sign-in?notice=left-everywhere', 303)
    }),
  ]
}

/** All organizations in which this person has signed in. */
async function membershipsOf (
  { people }: PageDeps, { visitor: { person } }: Visit
): Promise<readonly Membership[]> {
  if (person === undefined) throw new PageError('not_found')
  return await people.membershipsOf({ ...person, email: '' })
}

type Choice = { readonly orgId: string, readonly role: string, readonly name: string }

/** The account of a person. */
export function accountView (visit: Visit, organizations: readonly Choice[]): Html {
  const { mode, orgId: currentId } = visit.tenant
  const token = tokenField(visit.visitor.session)
  return customerPage(visit, 'account', {
    title: 'Your account',
    body: html`
      <h1>Your account</h1>
      <p>You are signed in as ${visit.visitor.person?.email}.</p>
      <section><h2>Organizations</h2>
        ${table('Organizations', [
          { text: 'Name' }, { text: 'Your role' }, { text: 'Actions', isUnseen: true },
        ], organizations.map(({ orgId, role, name }) => html`<tr>
          <th scope="row">${name}</th>
          <td>${role}</td>
          <td>${orgId === currentId
            ? html`<span class="badge good">Open</span>`
            : html`<form method="post" action="/${mode}/account/organization">${token}
              <input type="hidden" name="org" value="${orgId}">
              <button class="button quiet" type="submit" aria-label="Open ${name}">Open</button>
            </form>`}</td>
        </tr>`))}
      </section>
      <section><h2>Sessions</h2>
        <p>This ends your sessions in every browser and organization, this one included.</p>
        <form method="post" action="/${mode}/account/sign-out-everywhere">${token}
          <button class="button quiet danger" type="submit">Sign out everywhere</button>
        </form>
      </section>`,
  })
}
