import type { RouteOptions } from 'fastify'
import { describeAccess } from '../accounts/access-log/requests.ts'
import { isPersonRole, PeopleError, type Person, type Role, ROLES } from '../accounts/people.ts'
import { accountRoutes } from './account.ts'
import { customerRoutes, type Exchange, field, type PageDeps, type Visit } from './context.ts'
import { html, type Html, time } from './html.ts'
import { customerPage, emptyState, noticeOf, sendHtml, table, tokenField } from './layout.ts'
import { PageError } from './page-error.ts'

/** The people of an organization: list, add, change, remove; and the account of a person. */
export function peopleRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  const { people } = deps
  const change = (
    action: (orgId: string, id: string, exchange: Exchange) => Promise<Person | undefined>,
    notice: string
  ) => async (exchange: Exchange) => {
    const { visit: { tenant }, request, reply } = exchange
    const { role } = await people.find(tenant.orgId, idIn(exchange)) ?? {}
    if (role !== undefined) describeAccess(request, { details: { previousRole: role } })
    if (await allowed(action(tenant.orgId, idIn(exchange), exchange)) === undefined) {
      throw new PageError('not_found')
    }
    return reply.redirect(`/${tenant.mode}/people?notice=${notice}`, 303)
  }
  return [
    ...accountRoutes(deps),
    route('GET', '/:mode/people', { access: 'people.view' }, async ({ visit, request, reply }) =>
      sendHtml(reply, peopleView(visit, {
        people: await people.list(visit.tenant.orgId),
        notice: noticeOf(request),
        hasProvider: deps.identityProvider !== undefined,
      }))),
    route('POST', '/:mode/people', {
      access: 'people.change', records: 'person.added',
    }, async ({ visit, request, reply }) => {
      const { orgId, mode } = visit.tenant
      const person = await allowed(people.add(orgId, {
        email: field(request, 'email'),
        role: roleIn(field(request, 'role')),
        createdBy: visit.visitor.person?.email ?? 'workspace page',
      }))
      if (person !== undefined) describeAccess(request, { target: person.id })
      return reply.redirect(`/${mode}/people?notice=person-added`, 303)
    }),
    route('GET', '/:mode/people/:person', { access: 'people.view' }, async exchange => {
      const { visit, reply } = exchange
      const person = await people.find(visit.tenant.orgId, idIn(exchange))
      if (person === undefined) throw new PageError('not_found')
      return sendHtml(reply, personView(visit, person))
    }),
    route('POST', '/:mode/people/:person/role', {
      access: 'people.change', records: 'person.changed',
    }, change((orgId, id, { request }) =>
      people.changeRole(orgId, id, roleIn(field(request, 'role'))), 'person-saved')),
    route('POST', '/:mode/people/:person/sign-out', {
      access: 'people.change', records: 'person.signed_out',
    }, change((orgId, id) =>
      people.endSessions(orgId, id), 'person-signed-out')),
    route('POST', '/:mode/people/:person/remove', {
      access: 'people.change', records: 'person.removed',
    }, change((orgId, id) =>
      people.remove(orgId, id), 'person-removed')),
  ]
}

/** E-mail addresses of people by id. Other records have ids only, so that people can be erased. */
export type Addresses = ReadonlyMap<string, string>

/** The addresses of the current members of the organization that a browser visits. */
export async function addressesOf (
  { list }: Pick<PageDeps['people'], 'list'>, { tenant }: Visit
): Promise<Addresses> {
  return new Map((await list(tenant.orgId)).map(({ id, email }) => [id, email]))
}

const idIn = ({ request }: Exchange) =>
  (request.params as { readonly person?: string }).person ?? ''

function roleIn (text: string): Role {
  if (!isPersonRole(text)) throw new PageError('bad_form')
  return text
}

/** The result of a change; a change that is not allowed becomes an error of the form. */
async function allowed<T> (change: Promise<T>): Promise<T> {
  try {
    return await change
  } catch (error) {
    if (!(error instanceof PeopleError)) throw error
    throw new PageError('bad_form', `${error.message} Go back and change it.`)
  }
}

type PeopleList = {
  readonly people: readonly Person[]
  readonly notice: Html | undefined
  readonly hasProvider: boolean
}

/** The people of an organization, and a form to add one. */
export function peopleView (visit: Visit, { people, notice, hasProvider }: PeopleList): Html {
  return customerPage(visit, 'people', {
    title: 'People',
    body: html`
      <h1>People</h1>
      ${notice}
      <p class="hint">They sign in through the sign-in provider of this installation, in live and
        test mode. A person is recognized by the e-mail address at the first sign-in, and by the
        account at the provider from then on.</p>
      ${!hasProvider && html`<p class="notice warn" role="status">No sign-in provider is set up
        here yet. Until the operator sets one up, only links sign in.</p>`}
      ${people.length === 0
        ? emptyState('Nobody yet. Add the first owner below.')
        : peopleTable(visit, people)}
      <section><h2>Add a person</h2>
        <form class="card" method="post" action="/${visit.tenant.mode}/people">
          ${tokenField(visit.visitor.session)}
          <label>E-mail address <input type="email" name="email" required maxlength="254"
            autocomplete="off"></label>
          ${roleSelect(people.length === 0 ? 'owner' : 'read-only')}
          <button class="button" type="submit">Add</button>
        </form>
      </section>`,
  })
}

const ROLE_TEXTS: Readonly<Record<Role, string>> = {
  owner: 'everything, and people',
  developer: 'jobs, results, API keys, webhooks, usage',
  finance: 'balance, transactions, usage',
  'read-only': 'jobs and their states, usage',
}

function roleSelect (chosen: Role): Html {
  return html`<label>Role <select name="role">${ROLES.map(role => html`
    <option value="${role}"${role === chosen && html` selected`}>${role}: ${
      ROLE_TEXTS[role]}</option>`)}</select></label>`
}

function peopleTable (visit: Visit, people: readonly Person[]): Html {
  return table('People', [
    { text: 'E-mail address' }, { text: 'Role' }, { text: 'State' }, { text: 'Added' },
  ], people.map(person => html`<tr>
    <th scope="row"><a href="/${visit.tenant.mode}/people/${person.id}">${person.email}</a>${
      person.id === visit.visitor.person?.id && ' (you)'}</th>
    <td>${person.role}</td>
    <td>${stateBadge(person)}</td>
    <td>${time(person.createdAtMs, visit.zone)}<br>
      <span class="hint">${person.createdBy}</span></td>
  </tr>`))
}

function stateBadge ({ issuer }: Person): Html {
  return issuer === ''
    ? html`<span class="badge waiting">Has not signed in</span>`
    : html`<span class="badge good">Has signed in</span>`
}

/** One person: role, sessions and removal. */
export function personView (visit: Visit, person: Person): Html {
  const { mode } = visit.tenant
  const base = `/${mode}/people/${person.id}`
  const token = tokenField(visit.visitor.session)
  return customerPage(visit, 'people', {
    title: 'Person',
    body: html`
      <p class="back"><a href="/${mode}/people">People</a></p>
      <h1 class="long">${person.email}</h1>
      <p>${stateBadge(person)}</p>
      <section><h2>Role</h2>
        <form class="card" method="post" action="${base}/role">${token}
          ${roleSelect(person.role)}
          <button class="button" type="submit">Save</button>
        </form>
      </section>
      <section><h2>Access</h2>
        <p>Signing out ends the sessions of this person here, in every browser. Removing also takes
          away the access to this organization, at once. API keys that the person made stay valid:
          revoke them under API keys.</p>
        <div class="row">
          <form method="post" action="${base}/sign-out">${token}
            <button class="button quiet" type="submit">Sign out everywhere</button>
          </form>
          <form method="post" action="${base}/remove">${token}
            <button class="button quiet danger" type="submit">Remove</button>
          </form>
        </div>
      </section>`,
  })
}
