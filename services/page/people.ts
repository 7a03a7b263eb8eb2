import type { RouteOptions } from 'fastify'
import { describeAccess } from '../accounts/access-log/access-log.ts'
import {
  isPersonRole, type Membership, PeopleError, type Person, type Role, ROLES,
} from '../accounts/people.ts'
import { customerRoutes, type Exchange, field, type PageDeps, type Visit } from './context.ts'
import { html, type Html, time } from './html.ts'
import {
  badge, customerPage, emptyState, findNotice, postForm, redirect, select, sendHtml, table,
} from './layout.ts'
import { PageError } from './page-error.ts'
import { endSession, startSession, toSubject } from './sign-in.ts'

/** The people of an organization: list, add, change, remove; and the account of a person. */
export function peopleRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  const { people } = deps
  const change = async (
    exchange: Exchange, action: (orgId: string, id: string) => Promise<Person | undefined>
  ) => {
    const { visit: { tenant: { orgId } }, request } = exchange
    const id = personId(exchange)
    const { role } = await people.find(orgId, id) ?? {}
    if (role !== undefined) describeAccess(request, { details: { previousRole: role } })
    if (await explainRefusal(action(orgId, id)) === undefined) throw new PageError('not_found')
  }
  return [
    ...accountRoutes(deps),
    route('GET', '/:mode/people', {
      access: 'people.view', navigation: 'People',
    }, async ({ visit, reply }) => sendHtml(reply, peopleView(
      visit, await people.list(visit.tenant.orgId), deps.identityProvider !== undefined))),
    route('POST', '/:mode/people', {
      access: 'people.change', records: 'person.added',
    }, async exchange => {
      const { visit, request } = exchange
      const person = await explainRefusal(people.add(visit.tenant.orgId, {
        email: field(request, 'email'),
        role: readRole(exchange),
        createdBy: visit.visitor.person?.email ?? 'workspace page',
      }))
      if (person !== undefined) describeAccess(request, { target: person.id })
      return redirect(exchange, 'people', 'person-added')
    }),
    route('GET', '/:mode/people/:person', { access: 'people.view' }, async exchange => {
      const { visit, reply } = exchange
      const person = await people.find(visit.tenant.orgId, personId(exchange))
      if (person === undefined) throw new PageError('not_found')
      return sendHtml(reply, personView(visit, person))
    }),
    route('POST', '/:mode/people/:person/role', {
      access: 'people.change', records: 'person.changed',
    }, async exchange => {
      await change(exchange, (orgId, id) => people.changeRole(orgId, id, readRole(exchange)))
      return redirect(exchange, 'people', 'person-saved')
    }),
    route('POST', '/:mode/people/:person/sign-out', {
      access: 'people.change', records: 'person.signed_out',
    }, async exchange => {
      await change(exchange, people.endSessions)
      return redirect(exchange, 'people', 'person-signed-out')
    }),
    route('POST', '/:mode/people/:person/remove', {
      access: 'people.change', records: 'person.removed',
    }, async exchange => {
      await change(exchange, people.remove)
      return redirect(exchange, 'people', 'person-removed')
    }),
  ]
}

/** E-mail addresses of people by id. Other records have ids only, so that people can be erased. */
export type Addresses = ReadonlyMap<string, string>

/** The addresses of the current members of the organization that a browser visits. */
export async function readAddresses (
  { list }: Pick<PageDeps['people'], 'list'>, { tenant }: Visit
): Promise<Addresses> {
  return new Map((await list(tenant.orgId)).map(({ id, email }) => [id, email]))
}

const personId = ({ request }: Exchange) =>
  (request.params as { readonly person?: string }).person ?? ''

function readRole ({ request }: Exchange): Role {
  const text = field(request, 'role')
  if (!isPersonRole(text)) throw new PageError('bad_form')
  return text
}

/** The result of a change; a change that is not allowed becomes an error of the form. */
async function explainRefusal<T> (change: Promise<T>): Promise<T> {
  try {
    return await change
  } catch (error) {
    if (!(error instanceof PeopleError)) throw error
    throw new PageError('bad_form', `${error.message} Go back and change it.`)
  }
}

/** The people of an organization, and a form to add one. */
function peopleView (visit: Visit, people: readonly Person[], hasProvider: boolean): Html {
  return customerPage(visit, {
    title: 'People',
    body: html`
      <h1>People</h1>
      ${findNotice(visit)}
      <p class="hint">They sign in through the sign-in provider of this installation, in live and
        test mode. A person is recognized by the e-mail address at the first sign-in, and by the
        account at the provider from then on.</p>
      ${!hasProvider && html`<p class="notice warn" role="status">No sign-in provider is set up
        here yet. Until the operator sets one up, only links sign in.</p>`}
      ${people.length === 0
        ? emptyState('Nobody yet. Add the first owner below.')
        : peopleTable(visit, people)}
      <section><h2>Add a person</h2>
        ${postForm(visit, `/${visit.tenant.mode}/people`, html`
          <label>E-mail address <input type="email" name="email" required maxlength="254"
            autocomplete="off"></label>
          ${roleSelect(people.length === 0 ? 'owner' : 'read-only')}
          <button class="button" type="submit">Add</button>`, { look: 'card' })}
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
  return html`<label>Role ${select(
    'role', chosen, ROLES.map(role => [role, `${role}: ${ROLE_TEXTS[role]}`]))}</label>`
}

function peopleTable ({ tenant, visitor, zone }: Visit, people: readonly Person[]): Html {
  return table('People', people, [
    {
      text: 'E-mail address',
      isHeader: true,
      cell: ({ id, email }) => html`<a href="/${tenant.mode}/people/${id}">${email}</a>${
        id === visitor.person?.id && ' (you)'}`,
    },
    { text: 'Role', cell: ({ role }) => role },
    { text: 'State', cell: stateBadge },
    {
      text: 'Added',
      cell: ({ createdAtMs, createdBy }) => html`${time(createdAtMs, zone)}<br>
        <span class="hint">${createdBy}</span>`,
    },
  ])
}

function stateBadge ({ issuer }: Person): Html {
  return issuer === '' ? badge('Has not signed in', 'waiting') : badge('Has signed in', 'good')
}

/** One person: role, sessions and removal. */
function personView (visit: Visit, person: Person): Html {
  const { mode } = visit.tenant
  const base = `/${mode}/people/${person.id}`
  return customerPage(visit, {
    title: 'Person',
    body: html`
      <p class="back"><a href="/${mode}/people">People</a></p>
      <h1 class="long">${person.email}</h1>
      <p>${stateBadge(person)}</p>
      <section><h2>Role</h2>
        ${postForm(visit, `${base}/role`, html`
          ${roleSelect(person.role)}
          <button class="button" type="submit">Save</button>`, { look: 'card' })}
      </section>
      <section><h2>Access</h2>
        <p>Signing out ends the sessions of this person here, in every browser. Removing also takes
          away the access to this organization, at once. API keys that the person made stay valid:
          revoke them under API keys.</p>
        <div class="row">
          ${postForm(visit, `${base}/sign-out`, html`
            <button class="button quiet" type="submit">Sign out everywhere</button>`)}
          ${postForm(visit, `${base}/remove`, html`
            <button class="button quiet danger" type="submit">Remove</button>`)}
        </div>
      </section>`,
  })
}

/** The account of a person: their organizations, and the end of all their sessions. */
function accountRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/account', { access: 'person' }, async ({ visit, reply }) =>
      sendHtml(reply, accountView(visit))),
    route('POST', '/:mode/account/organization', {
      // The session of the other organization is recorded as it starts.
      access: 'person', records: null,
    }, async ({ visit, request, reply }) => {
      const wanted = field(request, 'org')
      const membership = (await readMemberships(deps, visit)).find(({ orgId }) => orgId === wanted)
      if (membership === undefined) throw new PageError('not_found')
      const { authenticatedAtMs } = visit.visitor.session
      await startSession(deps, { request, reply }, {
        subject: toSubject(membership), authenticatedAtMs,
      })
      return reply.redirect(`/${visit.tenant.mode}/overview`, 303)
    }),
    route('POST', '/:mode/account/sign-out-everywhere', {
      access: 'person', records: 'person.signed_out',
    }, async ({ visit, request, reply }) => {
      describeAccess(request, { target: visit.visitor.person?.id })
      for (const { orgId, person } of await readMemberships(deps, visit)) {
        await deps.people.endSessions(orgId, person.id)
      }
      await endSession(deps, request, reply)
      return reply.redirect('/sign-in?notice=left-everywhere', 303)
    }),
  ]
}

/** All organizations in which this person has signed in. */
async function readMemberships (
  { people }: PageDeps, { visitor: { person } }: Visit
): Promise<readonly Membership[]> {
  if (person === undefined) throw new PageError('not_found')
  return await people.membershipsOf({ ...person, email: '' })
}

function accountView (visit: Visit): Html {
  const { organizations, tenant: { mode, orgId: currentId } } = visit
  return customerPage(visit, {
    title: 'Your account',
    body: html`
      <h1>Your account</h1>
      <p>You are signed in as ${visit.visitor.person?.email}.</p>
      <section><h2>Organizations</h2>
        ${table('Organizations', organizations, [
          { text: 'Name', isHeader: true, cell: ({ name }) => name },
          { text: 'Your role', cell: ({ role }) => role },
          {
            text: 'Actions',
            isUnseen: true,
            cell: ({ orgId, name }) => orgId === currentId
              ? badge('Open', 'good')
              : postForm(visit, `/${mode}/account/organization`, html`
                <input type="hidden" name="org" value="${orgId}"><button class="button quiet"
                  type="submit" aria-label="Open ${name}">Open</button>`),
          },
        ])}
      </section>
      <section><h2>Sessions</h2>
        <p>This ends your sessions in every browser and organization, this one included.</p>
        ${postForm(visit, `/${mode}/account/sign-out-everywhere`, html`
          <button class="button quiet danger" type="submit">Sign out everywhere</button>`)}
      </section>`,
  })
}
