import { describe, expect, it } from 'vitest'
import { METRICS } from '../../services/runtime/platform/metric-list.ts'
import { STAGES } from '../../services/topology.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { dashboards, panelQueries } from '../support/deploy/dashboards.ts'
import { startDnsServer } from '../support/mail/dns-server.ts'
import { startMailServers } from '../support/mail/mail-servers.ts'
import { presetAt, startFakeVendors } from '../support/vendors/fake-vendors.ts'
import { startPrometheus } from '../support/deploy/prometheus.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

/** The exchange of two domains; it greylists some names of one, and blocks us for the other. */
const HOST = 'mx.mail.org'
const GREYLISTED = '450 4.2.0 Greylisted, please try again in 600 seconds'
const BLOCKED = '554 5.7.1 Service unavailable; Client host blocked using zen.spamhaus.org'

const receiver = await startReceiver()
const vendors = closeAfterAll(await startFakeVendors())
const mail = closeAfterAll(await startMailServers({
  [HOST]: {
    recipients: address => {
      if (address.endsWith('@blocking.org')) return BLOCKED
      if (address.startsWith('grey')) return GREYLISTED
      return address.startsWith('jane') ? undefined : '550 5.1.1 No such user'
    },
  },
}))
const dns = closeAfterAll(await startDnsServer({
  'mail.org': { mx: [[10, HOST]] },
  [HOST]: { a: ['127.0.0.1'] },
  'blocking.org': { mx: [[10, 'mx.blocking.org']] },
  'mx.blocking.org': { a: ['127.0.0.1'] },
}))
const environment = closeAfterAll(await startEnvironment({
  HTTP_PROVIDERS: JSON.stringify([presetAt(vendors.url, 'http:checknumber', { id: 1 })]),
  PROVIDERS: JSON.stringify({
    whatsapp: ['http:1'],
    'phone-validation': ['numbering-plan'],
    'email-validation': ['smtp-probe'],
  }),
  DNS_SERVERS: dns.address,
  SMTP_HELO: 'probe.verify.org',
  SMTP_PORT: String(mail.portOf(HOST)),
  SMTP_ALLOW_PRIVATE: 'true',
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOW_LOOPBACK: 'true',
  JOURNAL_HEAD_TARGET: `http://127.0.0.1:${receiver.port}/heads`,
  JOURNAL_HEAD_EVERY_MS: '1000',
}, { apart: STAGES }))
const prometheus = closeAfterAll(await startPrometheus({ services: environment.services.list() }))

/** Values change with a scrape, once a second. */
const until = (assertion: () => Promise<void>) => eventually(assertion, { everyMs: 200 })
const valueOf = async (expr: string) => (await prometheus.query(expr))[0]?.value ?? NaN

await until(async () =>
  expect(await prometheus.query('up == 1')).toHaveLength(STAGES.length))
const { id } = await environment.live.createJob({
  service: 'phone-validation',
  inputs: Array.from({ length: 200 }, (_, row) => `+1415555${String(2_000 + row)}`),
  webhook_url: `http://127.0.0.1:${receiver.port}/hook`,
})
await environment.live.waitForEnd(id)
await receiver.until(1, '/hook')
// The last to hear of a job; from then on there is nothing more to come.
await until(async () => {
  expect(await valueOf('sum(jobs_total{event="settled"})')).toBeGreaterThanOrEqual(1)
  expect(await valueOf('sum(webhook_attempts_total{outcome="delivered"})'))
    .toBeGreaterThanOrEqual(1)
})

describe('a Prometheus that reads the metrics of all services', () => {
  it('reaches every one of them', async () => {
    const targets = await prometheus.targets()
    expect(targets.map(({ labels, health }) => [labels.job, health]).sort())
      .toEqual(STAGES.map(stage => [stage, 'up']).sort())
    expect(targets.filter(({ lastError }) => lastError !== '')).toEqual([])
  })

  it('counts what the job has changed', async () => {
    const moved = (movement: string) =>
      valueOf(`sum(money_moved_micros_total{mode="live", movement="${movement}"})`)
    expect(await moved('reserved')).toBe(await moved('charged') + await moved('released'))
    expect(await moved('charged')).toBeGreaterThan(0)
    for (const stage of ['normalize', 'verify']) {
      expect(await valueOf(`sum(stage_rows_total{stage="${stage}"})`), stage).toBe(200)
    }
    expect(await valueOf('sum(http_requests_total{route="/api/v1/jobs", status="202"})')).toBe(1)
    expect(await valueOf('sum(provider_checks_total)')).toBeGreaterThan(0)
    expect(await valueOf('sum(cache_lookups_total)')).toBe(200)
    const all = '{mode="live", state!="funded"}'
    expect(await valueOf(`sum(max by (state) (money_micros${all}))`))
      .toBe(await valueOf('max(money_micros{mode="live", state="funded"})'))
  })

  it('knows that no group is behind', async () => {
    await until(async () => expect(await valueOf('sum(group:lag_messages:sum)')).toBe(0))
    const groups = await prometheus.query('group:lag_messages:sum')
    expect(new Set(groups.map(({ labels }) => labels.stage)))
      .toEqual(new Set(STAGES.filter(stage => !['ingest', 'feed'].includes(stage))))
  })

  it('knows the tasks that a vendor has', async () => {
    vendors.behave('running')
    await environment.live.createJob({ service: 'whatsapp', inputs: ['+12127365000'] })
    await until(async () => expect(await valueOf('sum(vendor_tasks)')).toBe(1))
  })

  it('knows what mail servers answer, and the egress that one of them blocks', async () => {
    // One refusal may be about the mailbox; several in a row are about us.
    const blocked = Array.from({ length: 10 }, (_, at) => `jane.${at}@blocking.org`)
    const { id } = await environment.live.createJob({
      service: 'email-validation',
      inputs: ['jane@mail.org', 'nobody@mail.org', 'grey@mail.org', ...blocked],
    })
    await until(async () => {
      const { freshRecords, waiting } = await environment.live.job(id)
      expect([freshRecords, waiting?.rows]).toEqual([2, 1 + blocked.length])
    })
    await until(async () => {
      const replies = await prometheus.query('sum by (reply) (mailbox_recipients_total) > 0')
      expect(replies.map(({ labels }) => labels.reply).sort())
        .toEqual(['blocked', 'other', 'verdict'])
      const resting = await prometheus.query('mailbox_egress_resting_seconds > 0')
      expect(resting.map(({ labels: { owner, egress } }) => [owner, egress]))
        .toEqual([['blocking.org/127.0.0.1', 'default']])
    })
  })

  it('scrapes every metric of the list, from the stages it names, with its labels', async () => {
    // Some are reported only once there was something to compare.
    await until(async () => expect(await unexpectedMetrics()).toEqual([]))
  })

  async function unexpectedMetrics () {
    const wrong = await Promise.all(METRICS.map(async ({ name, type, labels, by }) => {
      const series = type === 'histogram' ? `${name}_count` : name
      const found = await prometheus.query(series)
      return by.flatMap(stage => {
        const own = found.find(sample => sample.labels.job === stage)
        if (own === undefined) return [`${stage} does not export ${name}`]
        const { __name__: _name, job: _job, instance: _instance, ...reported } = own.labels
        // A label without a value is none to Prometheus.
        const unexpected = Object.keys(reported).filter(label => !labels.some(one => one === label))
        return unexpected.map(label => `${stage} exports ${name} with the label ${label}`)
      })
    }))
    return wrong.flat()
  }

  it('answers every query of every dashboard with data', async () => {
    const mute = dashboards().flatMap(({ panels }) => panels)
      .filter(({ type, targets = [] }) => type !== 'row' && targets.length === 0)
    expect(mute).toEqual([])
    const queries = panelQueries()
    expect(queries.length).toBeGreaterThan(60)
    // A rate needs two samples of a series, and one of a recorded rule a third.
    await until(async () => {
      const answers = await Promise.all(queries.map(({ expr }) => prometheus.query(expr)))
      expect(queries.filter((_, at) => answers[at]?.length === 0).map(({ where }) => where))
        .toEqual([])
    })
  })

  it('understands every rule, and no alert fires', async () => {
    const rules = await prometheus.rules()
    expect(rules.filter(({ health }) => health !== 'ok').map(({ name, lastError }) =>
      [name, lastError])).toEqual([])
    for (const { query } of rules) await prometheus.query(query)
    expect(await prometheus.firing()).toEqual([])
  })
})
