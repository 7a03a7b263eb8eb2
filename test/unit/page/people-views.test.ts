import { describe, expect, it } from 'vitest'
import type { Person, Role } from '../../../services/accounts/people.ts'
import { accountRoutes, accountView } from '../../../services/page/account.ts'
import { overviewView } from '../../../services/page/balance.ts'
import type { Visit } from '../../../services/page/context.ts'
import { jobView } from '../../../services/page/jobs.ts'
import { keysView } from '../../../services/page/keys.ts'
import { stepUpPath } from '../../../services/page/layout.ts'
import { peopleView, personView } from '../../../services/page/people.ts'
import { settingsView } from '../../../services/page/settings.ts'
import { createPageDeps, ended, jobLike, visitLike } from '../../support/page/page-doubles.ts'

const personLike = (role: Role, more: Partial<Person> = {}): Person => ({
  id: 'per_1',
  email: 'ann<@example.com',
  role,
  createdAtMs: 0,
  createdBy: 'operator',
  issuer: '',
  subject: '',
  generation: 0,
  ...more,
})
const visitOf = (role: Role, authenticatedAtMs = Date.now()): Visit => {
  const visit = visitLike()
  const session = { ...visit.visitor.session, authenticatedAtMs }
  return { ...visit, visitor: { id: 'id', session, person: personLike(role) } }
}

describe('the pages of people', () => {
  it('list them with roles and whether they have signed in, and escape addresses', () => {
    const signedIn = personLike('finance', { id: 'per_2', issuer: 'https://login.example' })
    const people = [personLike('owner'), signedIn]
    const { html } = peopleView(visitOf('owner'), { people, notice: undefined, hasProvider: true })
    expect(html).toContain('href="/live/people/per_1">ann&lt;@example.com</a> (you)')
    expect(html).toContain('Has not signed in')
    expect(html).toContain('Has signed in')
    expect(html).not.toContain('No sign-in provider')
    const none = peopleView(visitLike(), { people: [], notice: undefined, hasProvider: false })
    expect(none.html).toContain('Add the first owner below')
    expect(none.html).toContain('No sign-in provider is set up')
    expect(none.html).toMatch(/value="owner" selected/)
  })

  it('offer role, sign-out and removal of one person', () => {
    const { html } = personView(visitOf('owner'), personLike('finance'))
    for (const action of ['role', 'sign-out', 'remove']) {
      expect(html).toContain(`action="/live/people/per_1/${action}"`)
    }
    expect(html).toMatch(/value="finance" selected/)
  })

  it('show a person the own account and the other organizations', () => {
    const { html } = accountView(visitOf('finance'), [
      { orgId: 'org_1', role: 'finance', name: 'One' },
      { orgId: 'org_2', role: 'owner', name: 'Two' },
    ])
    expect(html).toContain('You are signed in as ann&lt;@example.com')
    expect(html).toContain('aria-label="Open Two"')
    expect(html).not.toContain('aria-label="Open One"')
    expect(accountRoutes(createPageDeps())).toHaveLength(3)
  })
})

describe('pages for a role', () => {
  const job = jobLike(ended)
  const details = { job, preview: undefined, attempts: [], notice: undefined }

  it('show what the role may see', () => {
    const balance = { balanceMicros: 1, reservedMicros: 0, availableMicros: 1, currency: 'USD' }
    const finance = overviewView(visitOf('finance'), { balance: balance as never, jobs: undefined })
    expect(finance.html).toContain('Available')
    expect(finance.html).not.toContain('Latest jobs')
    expect(finance.html).not.toContain('/live/keys')
    const reader = overviewView(visitOf('read-only'), { balance: undefined, jobs: [job] })
    expect(reader.html).toContain('Latest jobs')
    expect(reader.html).not.toContain('/live/upload')
  })

  it('offer no action that the role may not take', () => {
    const { html } = jobView(visitOf('read-only'), details)
    expect(html).not.toMatch(/Results<|Webhook deliveries|Erase the job/)
    expect(jobView(visitOf('developer'), details).html)
      .toMatch(/Results<[^]*Webhook deliveries/)
    const settings = { hasSecret: true, nonce: 'n', notice: undefined }
    expect(settingsView(visitOf('developer'), settings).html).not.toContain('Freshness')
    expect(settingsView(visitOf('owner'), settings).html).toContain('Freshness')
  })

  it('say before a form is filled in that it needs a new authentication', () => {
    const list = { keys: [], addresses: new Map(), nonce: 'n', nowMs: 0, notice: undefined }
    const link = stepUpPath('/live/keys').replace('&', '&amp;')
    expect(keysView(visitOf('owner'), list).html).not.toContain(link)
    expect(keysView(visitOf('owner', 0), list).html).toContain(link)
    const old = visitLike()
    const session = { ...old.visitor.session, authenticatedAtMs: 0 }
    expect(keysView({ ...old, visitor: { id: 'id', session } }, list).html)
      .toContain('sign in with a new link')
  })
})
