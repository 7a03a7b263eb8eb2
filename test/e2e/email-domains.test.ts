import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startDnsServer, type DnsServer } from '../support/dns-server.ts'
import { runJob, startEnvironment, type Environment } from '../support/environment.ts'

let dns: DnsServer
let environment: Environment
beforeAll(async () => {
  dns = await startDnsServer({
    'mail.org': { mx: [[10, 'mx.mail.org']] }, 'mx.mail.org': { a: ['93.184.215.14'] },
  })
  environment = await startEnvironment({ DNS_SERVERS: dns.address },
    { stages: ['ingest', 'verify'] })
})
afterAll(async () => {
  await environment.stop()
  await dns.stop()
})

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
    expect(dns.questions.toSorted()).toEqual([...new Set(dns.questions)].toSorted())
    const questionCount = dns.questions.length
    expect(questionCount).toBeGreaterThan(0)
    const again = await runJob(environment.live, { service, inputs })
    expect(again.rows.map(row => row.source)).toEqual(['none', 'cache', 'cache'])
    expect(again.job.chargedMicros).toBe(0)
    expect(dns.questions).toHaveLength(questionCount)
  })

  it('are not looked up again by a process that starts later', async () => {
    const inputs = ['joe@mail.org', 'joe@gone.org']
    const first = await runJob(environment.live, { service, inputs })
    const questionCount = dns.questions.length
    await environment.services.setScale({ verify: 0 })
    await environment.services.setScale({})
    await environment.services.untilReady()
    // Addresses without a record, so that only results of domains are reused.
    const others = await runJob(environment.live,
      { service, inputs: ['jim@mail.org', 'jim@gone.org'] })
    expect(others.rows.map(row => [row.reason, row.source]))
      .toEqual([['domain_accepts_mail', 'none'], ['domain_not_found', 'live']])
    expect(others.job.chargedMicros).toBe(first.job.chargedMicros)
    expect(dns.questions).toHaveLength(questionCount)
  })
})
