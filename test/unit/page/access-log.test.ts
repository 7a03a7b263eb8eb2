import { describe, expect, it } from 'vitest'
import { INSTALLATION } from '../../../services/accounts/access-log/access-log.ts'
import { secretDigest } from '../../../services/accounts/sessions.ts'
import { ApiError } from '../../../services/client/client.ts'
import { pageDefinitions } from '../../../services/page/app.ts'
import type { PageDeps } from '../../../services/page/context.ts'
import { accessEntry } from '../../support/access.ts'
import { ended, jobLike, openPage, ORGANIZATION, textOf } from '../../support/page/page-doubles.ts'

/** An access log that stores nothing. */
const failingLog = {
  append: async () => { throw Object.assign(new Error('down'), { code: 'ECONNREFUSED' }) },
  withdraw: async () => false,
}

type Form = Readonly<Record<string, string>>

/** What the log says on the result of each action: its target, and its details beside the mode. */
const ACTIONS: Readonly<Record<string, readonly [target: string, details: object, form?: Form]>> = {
  'POST /sign-out': ['', {}],
  'GET /:mode/jobs/:id/results.csv': ['job_1', {}],
  'GET /:mode/jobs/:id/results.xlsx': ['job_1', {}],
  'GET /:mode/jobs/:id/valid.csv': ['job_1', {}],
  'POST /:mode/jobs/:id/cancel': ['job_1', {}],
  'POST /:mode/jobs/:id/erase': ['job_1', { cache: 'yes' }, { cache: 'yes' }],
  'POST /:mode/jobs/:id/deliveries/:delivery/resend': ['evt_1', {}],
  'GET /:mode/usage.csv': ['', {}],
  'POST /:mode/keys': ['new key', { scope: 'jobs:read', networks: '192.0.2.1', days: '7' },
    { name: 'hidden', scope: 'jobs:read', networks: '192.0.2.1', days: '7' }],
  'POST /:mode/keys/:key/roll': ['key', { hours: '2', newKey: 'new key' }, { hours: '2' }],
  'POST /:mode/keys/:key/revoke': ['key', {}],
  'POST /:mode/settings/freshness': ['', { days: '7' }, { days: '7' }],
  'POST /:mode/settings/webhook-secret': ['', {}],
  'POST /:mode/lists': ['', { action: 'block', entries: '2' },
    { action: 'block', entries: 'hidden.example\n\nb.example' }],
  'POST /:mode/lists/file': ['', { action: 'file' }],
  'POST /:mode/webhooks': ['we_9', { event: 'job.completed' },
    { event: 'job.completed', url: 'https://hidden.example/', description: 'hidden' }],
  'POST /:mode/webhooks/:endpoint/enabled': ['we_1', { enabled: 'false' }, { enabled: 'false' }],
  'POST /:mode/webhooks/:endpoint/delete': ['we_1', {}],
  'POST /:mode/webhooks/:endpoint/secret': ['we_1', {}],
  'POST /:mode/webhooks/low-balance': ['', { usd: '5' }, { usd: '5' }],
  'POST /:mode/people':
    ['new person', { role: 'owner' }, { email: 'hidden@new.example', role: 'owner' }],
  'POST /:mode/people/:person/role':
    ['developer', { role: 'owner', previousRole: 'developer' }, { role: 'owner' }],
  'POST /:mode/people/:person/sign-out': ['developer', { previousRole: 'developer' }],
  'POST /:mode/people/:person/remove': ['developer', { previousRole: 'developer' }],
  'POST /:mode/account/sign-out-everywhere': ['owner', {}],
  'GET /:mode/access-log.csv': ['', {}],
}

const client = {
  job: async () => jobLike(),
  resultsFile: async () => ['row\r\n'],
  cancel: async () => jobLike(),
  eraseJob: async () => jobLike(),
  resend: async () => ({ status: 'queued' }),
  usageFile: async () => 'day',
  changeContactLists: async () => ({}),
  changeContactListsFromFile: async () => ({}),
  createWebhookEndpoint: async () => ({ id: 'we_9', secret: 'whsec_hidden' }),
  updateWebhookEndpoint: async () => ({}),
  deleteWebhookEndpoint: async () => ({}),
  rotateWebhookEndpointSecret: async () => ({ secret: 'whsec_hidden' }),
}

describe('an action on the page', () => {
  it('is every form and every file but eight', () => {
    const definitions = pageDefinitions()
    expect(definitions.filter(({ records }) => records).map(({ name }) => name).toSorted())
      .toEqual(Object.keys(ACTIONS).toSorted())
    expect(definitions.filter(({ records }) => records === null).map(({ name }) => name)).toEqual([
      'POST /sign-in', 'POST /:mode/upload/quote', 'POST /:mode/upload/estimate',
      'POST /:mode/upload/sheet', 'POST /:mode/upload/preview', 'POST /:mode/upload/job',
      'POST /:mode/lists/lookup', 'POST /:mode/account/organization',
    ])
  })

  it.each(Object.entries(ACTIONS))('is recorded with its target and its details: %s',
    async (route, [target, details, form = {}]) => {
      const { deps, signIn } = openPage({ client })
      const { id: orgId } = ORGANIZATION
      const key = await deps.apiKeys.create({ orgId, mode: 'live', scopes: ['jobs:read'] })
      const owner = await signIn('owner')
      await deps.people.membershipsOf({ issuer: 'i', subject: 's', email: 'owner@example.com' })
      const { actor: developer } = await signIn('developer')
      const [method = '', path = ''] = route.split(' ')
      const url = path.replace(':mode', 'live').replace(':id', 'job_1').replace(':key', key.id)
        .replace(':endpoint', 'we_1').replace(':delivery', 'evt_1').replace(':person', developer.id)
      const answer = method === 'GET'
        ? await owner.get(url)
        : path.endsWith('/file')
          ? await owner.send(url, 'entry\na.example\n', {
            'content-type': 'text/csv', 'x-form-token': owner.session.token,
          })
          : await owner.send(url, { nonce: deps.nonces.create(), ...form })
      expect([200, 303], answer.body).toContain(answer.statusCode)
      const [attempt, end] = deps.recorded
      const newKey = (await deps.apiKeys.list(orgId)).find(({ id }) => id !== key.id)
      const ids: Readonly<Record<string, string | undefined>> = {
        key: key.id,
        'new key': newKey?.id,
        'new person': (await deps.people.list(orgId)).at(-1)?.id,
        owner: owner.actor.id,
        developer: developer.id,
      }
      const { mode: _mode, ...rest } = end?.details ?? {}
      expect([attempt?.outcome, end?.outcome, end?.actor, end?.target, rest]).toEqual([
        'attempted', 'done', owner.actor, ids[target] ?? target,
        'newKey' in details ? { ...details, newKey: newKey?.id } : details,
      ])
      expect(JSON.stringify(deps.recorded)).not.toMatch(/hidden|@|vj_live_|whsec_/)
    })

  it('is recorded with the browser of a link, its address behind the proxy and the mode',
    async () => {
      const { app, deps, signIn } = openPage({ client, trustedProxies: ['127.0.0.1'] })
      const { id, session, actor } = await signIn()
      const { statusCode } = await app.inject({
        method: 'POST',
        url: '/test/jobs/job_1/erase',
        payload: `form_token=${session.token}`,
        headers: {
          host: 'h',
          origin: 'https://h',
          cookie: `__Host-session=${id}`,
          'content-type': 'application/x-www-form-urlencoded',
          'x-forwarded-proto': 'https',
          'x-forwarded-for': '192.0.2.7',
        },
      })
      expect(statusCode).toBe(303)
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

  it('does not happen when its entry is not stored', async () => {
    const done: string[] = []
    const { signIn } = openPage({
      deps: { accessLog: failingLog },
      client: { eraseJob: async (id: string) => { done.push(id) } },
    })
    expect((await (await signIn()).send('/live/jobs/job_1/erase')).statusCode).toBe(503)
    expect(done).toEqual([])
  })

  it.each([
    ['keys', { scope: 'jobs:read' }], ['webhooks', { event: 'job.completed' }],
    ['settings/webhook-secret', {}], ['webhooks/we_1/secret', {}],
  ])('of a form of %s that is sent twice is recorded as refused', async (path, form) => {
    const { deps, signIn } = openPage({ client })
    const { send } = await signIn()
    const sendForm = () => send(`/live/${path}`, { ...form, nonce: 'n' })
    expect((await sendForm()).statusCode).toBe(200)
    const { statusCode, headers } = await sendForm()
    expect([statusCode, headers.location]).toEqual([303, expect.stringMatching(/-once$/)])
    expect(deps.recorded.map(({ outcome }) => outcome))
      .toEqual(['attempted', 'done', 'attempted', 'refused'])
  })

  it('on lists that is refused says what it was', async () => {
    const refusal = new ApiError(
      new Response(null, { status: 400 }), '{"error":{"code":"x","message":"no entry"}}')
    const { deps, signIn } = openPage({
      client: {
        contactLists: async () => ({ lists: {}, entries: 0, maxEntries: 1 }),
        changeContactLists: async () => { throw refusal },
      },
    })
    const { send } = await signIn()
    expect((await send('/live/lists', { action: 'block', entries: 'x' })).statusCode).toBe(400)
    expect(deps.recorded[1]).toMatchObject({
      outcome: 'refused', details: { mode: 'live', action: 'block', entries: '1' },
    })
  })

  it('of a forged form, and of one of another site, is recorded as refused', async () => {
    const { deps, signIn } = openPage()
    const { actor, send } = await signIn()
    for (const [path, form, headers] of [
      ['jobs/job_1/erase', { form_token: 'x' }, {}],
      ['jobs/job_1/cancel', {}, { origin: 'https://evil.example' }],
      ['keys/key_1/revoke', {}, { 'sec-fetch-site': 'same-site' }],
    ] as const) expect((await send(`/live/${path}`, form, headers)).statusCode).toBe(403)
    expect(deps.recorded).toMatchObject([
      { action: 'job.erased', actor, outcome: 'refused', target: 'job_1' },
      { action: 'job.cancelled', actor, outcome: 'refused', target: 'job_1' },
      { action: 'key.revoked', actor, outcome: 'refused', target: 'key_1' },
    ])
  })
})

const row = { row: 1, input: '+12127365000', status: 'valid' }
const openEnded = (data: readonly object[], deps: Partial<PageDeps> = {}) => openPage({
  deps,
  client: {
    job: async () => jobLike(ended),
    resultsPage: async () => ({ data, nextCursor: null }),
    deliveries: async () => [],
  },
})

it.each([
  ['are recorded when they are shown', 'developer', [row], 1],
  ['are recorded when a link shows them', 'link', [row], 1],
  ['are not recorded for a role that does not see them', 'read-only', [row], 0],
  ['are not recorded without rows', 'link', [], 0],
] as const)('the first rows of a job %s', async (_what, who, data, entries) => {
  const page = openEnded(data)
  const { statusCode, body } = await (await page.signIn(who)).get('/live/jobs/job_1')
  expect([statusCode, body.includes('+12127365000')]).toEqual([200, entries === 1])
  expect(page.deps.recorded).toMatchObject(Array(entries).fill({
    action: 'results.previewed', target: 'job_1', address: '127.0.0.1', details: { mode: 'live' },
  }))
})

it('the first rows of a job are not shown when their entry is not stored', async () => {
  const { signIn } = openEnded([row], { accessLog: failingLog })
  const { statusCode, body } = await (await signIn()).get('/live/jobs/job_1')
  expect([statusCode, body.includes('+12127365000')]).toEqual([503, false])
})

describe('a session', () => {
  it('is recorded when it starts and ends', async () => {
    const { deps, post, signIn } = openPage()
    const code = await deps.signInCodes.create({ kind: 'customer', orgId: ORGANIZATION.id })
    const { cookies: [cookie] } = await post('/sign-in', { code })
    expect(deps.recorded).toEqual([{
      organization: ORGANIZATION.id,
      actor: { kind: 'link', id: secretDigest(cookie?.value ?? '').slice(0, 16) },
      action: 'session.started',
      address: '127.0.0.1',
    }])
    const { send, actor } = await signIn('operator')
    await send('/sign-out')
    expect(deps.recorded[1]).toMatchObject({
      organization: INSTALLATION, actor, action: 'session.ended', outcome: 'attempted',
    })
    await post('/sign-in', { code: 'spent' })
    expect(deps.recorded).toHaveLength(3)
  })

  it('does not start when its entry is not stored', async () => {
    const { deps, post } = openPage({ deps: { accessLog: failingLog } })
    const code = await deps.signInCodes.create({ kind: 'operator' })
    const { statusCode, headers } = await post('/sign-in', { code })
    expect([statusCode, headers['set-cookie']]).toEqual([503, undefined])
  })
})

describe('the page of the access log', () => {
  const entries = Array.from({ length: 51 }, (_, index) => accessEntry({ seq: 60 - index }))
  /** A page with these entries, and what it has read. */
  const openWith = async (log = entries) => {
    const reads: object[] = []
    const accessCopy: PageDeps['accessCopy'] = {
      newest: async filter => {
        reads.push(filter)
        const { limit, before = Infinity } = filter
        return log.filter(({ seq }) => seq < before).slice(0, limit)
      },
    }
    const page = openPage({ deps: { accessCopy } })
    return { reads, ...page, ...await page.signIn() }
  }

  it('lists the entries of the organization by filter, in pages', async () => {
    const { get, reads } = await openWith()
    const { body } = await get('/live/access-log?action=key.created&actor=key_1&before=70')
    expect(reads.splice(0)).toEqual([{
      organization: ORGANIZATION.id, action: 'key.created', actor: 'key_1', before: 70, limit: 51,
    }])
    expect(body.match(/<td>Results downloaded/g)).toHaveLength(50)
    expect(body).toContain('/access-log?action=key.created&amp;actor=key_1&amp;before=11"')
    // Actions of operators are no filters.
    expect([body.includes('value="balance.adjusted"'), body.includes('value="stage.paused"')])
      .toEqual([true, false])
    await get('/live/access-log?action=%3Cscript%3E&before=x')
    expect(reads).toMatchObject([{ action: '', actor: '', before: undefined }])
  })

  it('shows what is known of the result, and whom it concerns', async () => {
    const log = ['attempted', 'refused', 'incomplete', 'failed', 'done'].map((outcome, seq) =>
      accessEntry({ seq, outcome, action: 'person.signed_out', details: '{"mode":"<b>"}' }))
    const { deps, get } = await openWith(log)
    const { id = '' } = await deps.people.add(ORGANIZATION.id, {
      email: 'bob@example.com', role: 'owner', createdBy: 'operator',
    }) ?? {}
    log[0] = { ...log[0]!, target: id }
    const { body } = await get('/live/access-log')
    expect([...body.matchAll(/<td>Person signed out(?: <span class="badge \w+">([^<]+))?/g)]
      .map(([, badge]) => badge))
      .toEqual(['Result not known', 'Refused', 'Incomplete', 'Failed', undefined])
    expect(body).toContain('mode: &lt;b&gt;')
    expect(body.match(/bob@example\.com/g)).toHaveLength(1)
  })

  it('keeps the reasons of operators from customers', async () => {
    const details = { usd: '5', reason: 'too kind' }
    const entry = accessEntry({ seq: 2, actorKind: 'operator', details: JSON.stringify(details) })
    const reasonAlone = { ...entry, seq: 1, details: '{"reason":"too kind"}' }
    const { get } = await openWith([entry, reasonAlone])
    const list = textOf((await get('/live/access-log')).body)
    const file = (await get('/live/access-log.csv')).body
    expect([list.includes('usd: 5'), file.includes('usd')]).toEqual([true, true])
    expect(`${list}${file}`).not.toMatch(/too kind|reason/)
  })

  it('is a file of all entries, too, that no spreadsheet runs', async () => {
    const all = Array.from({ length: 1_001 }, (_, at) =>
      accessEntry({ seq: 1_001 - at, actor: '=1+A1' }))
    const { get, reads } = await openWith(all)
    const { body, headers } = await get('/live/access-log.csv?actor=key_1')
    const [heading, line, ...more] = body.trimEnd().split('\r\n')
    expect(heading).toBe('number,time,action,outcome,actor_kind,actor,target,address,details,id')
    expect(line).toMatch(/^1001,2026-.+Z,results.downloaded,done,key,'=1\+A1,job_1,/)
    expect(more).toHaveLength(1_000)
    expect(headers['content-disposition']).toContain('access-log.csv')
    expect(reads).toMatchObject([undefined, 2].map(before =>
      ({ actor: 'key_1', before, limit: 1_000 })))
  })
})
