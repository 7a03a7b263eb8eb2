import { describe, expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startDnsServer } from '../support/mail/dns-server.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'

const dns = closeAfterAll(await startDnsServer({
  'mail.org': { mx: [[10, 'mx.mail.org']] }, 'mx.mail.org': { a: ['93.184.215.14'] },
}))
// A query that is repeated after a timeout on a busy machine would be counted twice.
const environment = closeAfterAll(await startEnvironment(
  { DNS_SERVERS: dns.address, DNS_TIMEOUT_MS: '60000' }, { stages: ['ingest', 'verify'] }))

/** Queries of domains; each process asks for the root zone when it starts. */
const queries = () => dns.questions.filter(question => question !== 'NS .')

describe('e-mail addresses with a resolver', () => {
  const service = 'email-validation'

  it('are charged by their DNS result, and a rerun repeats no query', async () => {
    const services = await environment.live.services()
    expect(services.find(({ slug }) => slug === service)).toMatchObject({
      checks: ['syntax', 'lists', 'domain'], limitations: ['mailbox_not_checked'],
    })
    const inputs = ['jane@mail.org', 'sales@mail.org', 'jane@gone.org']
    expect(await environment.live.quote({ service, inputs }))
      .toMatchObject({ limitations: ['mailbox_not_checked'] })
    const first = await runJob(environment.live, { service, inputs })
    expect(first.rows.map(row => [row.status, row.reason])).toEqual([
      ['unknown', 'domain_accepts_mail'], ['risky', 'role_address'],
      ['invalid', 'domain_not_found'],
    ])
    expect(first.job.chargedMicros * 3).toBe(first.created.preflight.maxQuoteMicros * 2)
    expect(queries().toSorted()).toEqual([...new Set(queries())].toSorted())
    const queryCount = queries().length
    expect(queryCount).toBeGreaterThan(0)
    const again = await runJob(environment.live, { service, inputs })
    expect(again.rows.map(row => row.source)).toEqual(['none', 'cache', 'cache'])
    expect(again.job.chargedMicros).toBe(0)
    expect(queries()).toHaveLength(queryCount)
  })

  it('are not looked up again by a process that starts later', async () => {
    const inputs = ['joe@mail.org', 'joe@gone.org']
    const first = await runJob(environment.live, { service, inputs })
    const queryCount = queries().length
    await environment.services.setScale({ verify: 0 })
    await environment.services.setScale({})
    await environment.services.untilReady()
    // Addresses without a record, so that only results of domains are reused.
    const others = await runJob(environment.live,
      { service, inputs: ['jim@mail.org', 'jim@gone.org'] })
    expect(others.rows.map(row => [row.reason, row.source]))
      .toEqual([['domain_accepts_mail', 'none'], ['domain_not_found', 'live']])
    expect(others.job.chargedMicros).toBe(first.job.chargedMicros)
    expect(queries()).toHaveLength(queryCount)
  })

  it('follow contact lists by the mail server of their domain, from the cache too', async () => {
    const inputs = ['sales@mail.org', 'ann@mail.org', 'sales@gone.org']
    const before = await runJob(environment.live, { service, inputs })
    expect(before.rows.map(row => row.reason))
      .toEqual(['role_address', 'domain_accepts_mail', 'domain_not_found'])
    const list = async (action: 'suppress' | 'allow' | 'remove', ...entries: string[]) =>
      await environment.live.changeContactLists({ action, entries })
    const reasonsOf = async (more: object) =>
      (await runJob(environment.live, { service, inputs, ...more })).rows.map(row => row.reason)
    await list('suppress', 'mx:mail.org')
    // Processes use what they read of an organization for a second.
    await expect.poll(() => reasonsOf({}), { timeout: 10_000 })
      .toEqual(['suppressed', 'suppressed', 'domain_not_found'])
    const { rows, job } = await runJob(environment.live, { service, inputs })
    expect(rows.map(row => row.source)).toEqual(['preflight', 'preflight', 'cache'])
    expect(job).toMatchObject({ chargedMicros: 0, invalidRecords: 2 })
    // The server itself is more specific than those below mail.org, and an address than both.
    await list('suppress', 'sales@mail.org')
    await list('allow', 'mx:mx.mail.org')
    await expect.poll(() => reasonsOf({ forceFresh: true }), { timeout: 10_000 })
      .toEqual(['suppressed', 'allow_listed', 'domain_not_found'])
    await list('remove', 'mx:mail.org', 'mx:mx.mail.org', 'sales@mail.org')
  })
})
