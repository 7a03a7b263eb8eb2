import { afterEach, describe, expect, it } from 'vitest'
import { INSTALLATION } from '../../../services/accounts/access-log/entry.ts'
import { accessRecord } from '../../../services/accounts/access-log/records.ts'
import { actionText } from '../../../services/page/access-log.ts'
import type { PageDeps } from '../../../services/page/context.ts'
import { pageDefinitions } from '../../../services/page/routes.ts'
import { secretDigest, type SignedIn } from '../../../services/accounts/sessions.ts'
import { guardedLine } from '../../../services/jobs/results/csv.ts'
import { accessEntry } from '../../support/access.ts'
import { createBrowsers } from '../../support/page/page-browser.ts'
import { ended, jobLike, ORGANIZATION } from '../../support/page/page-doubles.ts'

const customer: SignedIn = { kind: 'customer', orgId: ORGANIZATION.id }
const { open, closeAll } = createBrowsers()
afterEach(closeAll)

/** An access log that stores nothing. */
const failingLog = (error: Error) =>
  ({ append: async () => { throw error }, withdraw: async () => false })

describe('the actions of the page', () => {
  it('are those of every form and every file but four', () => {
    expect(pageDefinitions().filter(({ records }) => records === null).map(({ name }) => name))
      .toEqual([
        'POST /sign-in', 'POST /:mode/upload/quote', 'POST /:mode/upload/job',
        'POST /:mode/account/organization',
      ])
  })

  it('are recorded with the browser, its address behind the proxy, and the mode', async () => {
    const { deps, signIn } = open({}, { eraseJob: async () => jobLike() })
    const { actor, send } = await signIn()
    expect((await send('/test/jobs/job_1/erase')).statusCode).toBe(303)
    expect(deps.recorded).toEqual(['attempted', 'done'].map(outcome => ({
      organization: ORGANIZATION.id,
      actor,
      action: 'job.erased',
      entryId: expect.any(String) as string,
      outcome,
      target: 'job_1',
      address: '192.0.2.7',
      details: { mode: 'test' },
    })))
  })

  it('do not happen when their entry is not stored', async () => {
    const done: string[] = []
    const down = Object.assign(new Error('down'), { code: 'ECONNREFUSED' })
    const { signIn } = open({ accessLog: failingLog(down) }, {
      eraseJob: async (id: string) => { done.push(id) },
    })
    const { send } = await signIn()
    expect((await send('/live/jobs/job_1/erase')).statusCode).toBe(503)
    expect(done).toEqual([])
  })

  it('of a form that was sent twice are recorded as refused', async () => {
    const { deps, signIn } = open()
    const { send } = await signIn()
    await deps.nonces.use('spent')
    for (const [path, form] of [
      ['keys', { scope: 'jobs:read' }], ['webhooks', { event: 'job.completed' }],
      ['settings/webhook-secret', {}],
    ] as const) {
      expect((await send(`/live/${path}`, { ...form, nonce: 'spent' })).statusCode).toBe(303)
    }
    expect(deps.recorded.map(({ outcome }) => outcome)).toEqual([
      'attempted', 'refused', 'attempted', 'refused', 'attempted', 'refused',
    ])
  })

  it('of a forged form, and of one of another site, are recorded as refused', async () => {
    const { deps, signIn } = open()
    const { actor, send } = await signIn()
    for (const [header, value, path] of [
      ['token', 'x', 'jobs/job_1/erase'],
      ['origin', 'https://evil.example', 'jobs/job_1/cancel'],
      ['sec-fetch-site', 'same-site', 'keys/key_1/revoke'],
    ] as const) {
      const { statusCode } = await send(`/live/${path}`, {}, { [header]: value })
      expect(statusCode).toBe(403)
    }
    expect(deps.recorded).toMatchObject([
      { action: 'job.erased', actor, outcome: 'refused', target: 'job_1' },
      { action: 'job.cancelled', actor, outcome: 'refused', target: 'job_1' },
      { action: 'key.revoked', actor, outcome: 'refused', target: 'key_1' },
    ])
  })
})

describe('the first rows of a job', () => {
  const rows = [{ row: 1, input: '+12127365000', status: 'valid' }]
  const view = async (data: readonly object[], role?: 'developer' | 'read-only') => {
    const opened = open({}, {
      job: async () => jobLike(ended),
      resultsPage: async () => ({ data, nextCursor: null }),
      deliveries: async () => [],
    })
    const { deps, signIn } = opened
    const person = role && await deps.people.add(ORGANIZATION.id, {
      email: 'bob@example.com', role, createdBy: 'operator',
    })
    const { get } = await signIn({
      ...customer, ...person && { person: { id: person.id, generation: 0 } },
    })
    return { deps, get }
  }

  it.each([undefined, 'developer'] as const)('are recorded when they are shown', async role => {
    const { deps, get } = await view(rows, role)
    expect((await get('/live/jobs/job_1')).body).toContain('+12127365000')
    expect(deps.recorded).toMatchObject([{
      action: 'results.previewed', target: 'job_1', address: '192.0.2.7', details: { mode: 'live' },
    }])
  })

  it('are not recorded for a role that does not see them, without rows or a job', async () => {
    const hidden = await view(rows, 'read-only')
    const page = await hidden.get('/live/jobs/job_1')
    expect([page.statusCode, page.body.includes('+12127365000')]).toEqual([200, false])
    const empty = await view([])
    expect((await empty.get('/live/jobs/job_1')).statusCode).toBe(200)
    expect((await empty.get('/live/jobs/new')).statusCode).toBe(404)
    expect([...hidden.deps.recorded, ...empty.deps.recorded]).toEqual([])
  })

  it('are not shown when their entry is not stored', async () => {
    const down = Object.assign(new Error('down'), { code: 'ECONNREFUSED' })
    const { signIn } = open({ accessLog: failingLog(down) }, {
      job: async () => jobLike(ended),
      resultsPage: async () => ({ data: rows, nextCursor: null }),
      deliveries: async () => [],
    })
    const { statusCode, body } = await (await signIn()).get('/live/jobs/job_1')
    expect([statusCode, body.includes('+12127365000')]).toEqual([503, false])
  })
})

describe('sessions', () => {
  it('are recorded when they start and end', async () => {
    const { deps, redeem, signIn } = open()
    const { headers } = await redeem(await deps.signInCodes.create(customer))
    const [, id = ''] = /session=([^;]+)/.exec(String(headers['set-cookie'])) ?? []
    expect(deps.recorded).toEqual([{
      organization: ORGANIZATION.id,
      actor: { kind: 'link', id: secretDigest(id).slice(0, 16) },
      action: 'session.started',
      address: '192.0.2.7',
    }])
    const { send, actor } = await signIn({ kind: 'operator' })
    await send('/sign-out')
    expect(deps.recorded[1]).toMatchObject({
      organization: INSTALLATION, actor, action: 'session.ended', outcome: 'attempted',
    })
    await redeem('spent')
    expect(deps.recorded).toHaveLength(3)
  })

  it('do not start when their entry is not stored', async () => {
    const { deps, redeem } = open({
      accessLog: {
        append: async () => { throw new Error('down') }, withdraw: async () => false,
      },
    })
    const { statusCode, headers } = await redeem(await deps.signInCodes.create(customer))
    expect([statusCode, headers['set-cookie']]).toEqual([500, undefined])
  })
})

describe('the page of the access log', () => {
  const entries = Array.from({ length: 51 }, (_, index) => accessEntry({ seq: 60 - index }))
  const reads: object[] = []
  const accessCopy: PageDeps['accessCopy'] = {
    newest: async filter => {
      reads.push(filter)
      return entries.slice(0, filter.limit)
    },
  }

  it('lists the entries of the organization by filter, in pages', async () => {
    const { signIn } = open({ accessCopy })
    const { get } = await signIn()
    const { body } = await get('/live/access-log?action=key.created&actor=key_1&before=70')
    expect(reads.splice(0)).toEqual([{
      organization: ORGANIZATION.id, action: 'key.created', actor: 'key_1', before: 70, limit: 51,
    }])
    expect(body.match(/<td>Results downloaded/g)).toHaveLength(50)
    expect(body).toContain('before=11')
    expect(body).toContain('access-log.csv?action=key.created&amp;actor=key_1')
    await get('/live/access-log?action=%3Cscript%3E&before=x')
    expect(reads.splice(0)).toMatchObject([{ action: '', actor: '', before: undefined }])
  })

  it('shows what is known of the result, and whom it concerns', async () => {
    const outcomes = ['attempted', 'refused', 'incomplete', 'failed', 'done']
    const shown = open({
      accessCopy: {
        newest: async () => outcomes.map((outcome, index) =>
          accessEntry({ seq: index + 1, outcome, action: 'person.changed', target: id })),
      },
    })
    const { id } = await shown.deps.people.add(ORGANIZATION.id, {
      email: 'bob@example.com', role: 'owner', createdBy: 'operator',
    }) ?? {}
    const { body } = await (await shown.signIn()).get('/live/access-log')
    expect([...body.matchAll(/<td>Person changed(?: <span class="badge \w+">([^<]+))?/g)]
      .map(([, badge]) => badge))
      .toEqual(['Result not known', 'Refused', 'Incomplete', 'Failed', undefined])
    expect(body.match(/bob@example\.com/g)).toHaveLength(outcomes.length)
  })

  it('offers no actions of operators as filters', async () => {
    const { body } = await (await open().signIn()).get('/live/access-log')
    const offered = [...body.matchAll(/<option value="([a-z_.]+)"/g)].map(([, name]) => name)
    expect(offered).toContain('balance.adjusted')
    expect(offered.filter(name =>
      /^(stage|cells|journal|letters)\.|rewrapped/.test(name ?? '')))
      .toEqual([])
  })

  it('shows refused requests and details, and what to do without entries', async () => {
    const refused = accessEntry({
      outcome: 'refused', actorKind: 'person', details: '{"mode":"<b>"}', address: '', target: '',
    })
    const shown = open({ accessCopy: { newest: async () => [refused] } })
    const { body } = await (await shown.signIn()).get('/live/access-log')
    expect(body).toContain('Refused')
    expect(body).toContain('mode: &lt;b&gt;')
    const { get } = await open().signIn()
    expect((await get('/live/access-log')).body).toContain('No entry yet.')
    expect((await get('/live/access-log?actor=x')).body).toContain('No entry matches the filter.')
    expect(actionText('webhook_endpoint.secret_rotated')).toBe('Webhook endpoint secret rotated')
  })

  it('is a file that no spreadsheet runs, and its download is recorded', async () => {
    const { deps, signIn } = open({ accessCopy })
    const { get } = await signIn()
    const { body, headers } = await get('/live/access-log.csv?actor=key_1')
    expect(body.split('\r\n')[0]).toBe(
      'number,time,action,outcome,actor_kind,actor,target,address,details,id')
    expect(body.split('\r\n')[1]).toMatch(/^60,2026-.+Z,results.downloaded,done,key,key_1,job_1,/)
    expect(body.trimEnd().split('\r\n')).toHaveLength(52)
    expect(headers['content-disposition']).toContain('access-log.csv')
    expect(deps.recorded).toMatchObject(['attempted', 'done'].map(outcome =>
      ({ action: 'access_log.exported', outcome })))
    expect(guardedLine(Object.values(accessRecord(accessEntry({ actor: '=1+A1' })))))
      .toContain(",'=1+A1,")
  })
})
