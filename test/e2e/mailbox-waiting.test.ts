import { describe, expect, it } from 'vitest'
import type { JobRequest } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startDnsServer } from '../support/mail/dns-server.ts'
import { startMailServers } from '../support/mail/mail-servers.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

const HOST = 'mx.mail.org'
const GREYLISTED = '450 4.2.0 Greylisted, please try again in 600 seconds'
const service = 'email-validation'

const mail = closeAfterAll(await startMailServers({
  [HOST]: {
    recipients: address => {
      if (address.startsWith('grey')) return GREYLISTED
      return address.startsWith('jane') ? undefined : '550 5.1.1 No such user'
    },
  },
}))
const dns = closeAfterAll(
  await startDnsServer({ 'mail.org': { mx: [[10, HOST]] }, [HOST]: { a: ['127.0.0.1'] } }))
const environment = closeAfterAll(await startEnvironment({
  PROVIDERS: JSON.stringify({ [service]: ['smtp-probe'] }),
  DNS_SERVERS: dns.address,
  SMTP_HELO: 'probe.verify.org',
  SMTP_PORT: String(mail.portOf(HOST)),
  SMTP_ALLOW_PRIVATE: 'true',
  RETRY_DELAY_MS: '500',
}, { stages: ['ingest', 'verify'] }))

/** A new job of two rows, as it is when one has its verdict and the other waits. */
async function waitingJob (request: Omit<JobRequest, 'service'>) {
  const { live } = environment
  const { id } = await live.createJob({ service, ...request })
  await expect.poll(async () => {
    const { freshRecords, pendingRecords, waiting } = await live.job(id)
    return [freshRecords, pendingRecords, waiting?.rows]
  }, { timeout: 30_000 }).toEqual([1, 1, 1])
  return await live.job(id)
}

const verdicts = async (id: string) => (await environment.live.resultsPage(id)).data
  .map(row => [row.status, row.reason, row.source])

describe('a job that waits for a mail server', () => {
  it('says so, and ends at its deadline, with what has no answer unknown and free', async () => {
    const job = await waitingJob({ inputs: ['jane@mail.org', 'grey@mail.org'], deadline: 60 })
    expect(job.status).toBe('verifying')
    expect(job.waiting)
      .toEqual({ rows: 1, reasons: { greylisted: 1 }, estimatedEndAt: job.deadline })
    const ended = await environment.live.waitForEnd(job.id)
    expect(ended).toMatchObject({ status: 'completed', waiting: null, unknownRecords: 1 })
    expect(Date.parse(ended.completedAt!)).toBeGreaterThanOrEqual(Date.parse(job.deadline!))
    expect(ended.chargedMicros * 2).toBe(ended.maxQuoteMicros)
    expect(await verdicts(job.id))
      .toEqual([['valid', 'deliverable', 'live'], ['unknown', 'greylisted', 'none']])
  })

  it('can be cancelled, and keeps its verdicts', async () => {
    const job = await waitingJob({ inputs: ['jane.doe@mail.org', 'grey.doe@mail.org'] })
    expect(job.deadline).toBeNull()
    expect((await environment.live.cancel(job.id)).waiting).toBeNull()
    const ended = await environment.live.waitForEnd(job.id)
    expect(ended).toMatchObject({ status: 'cancelled', waiting: null, cancelledRecords: 1 })
    expect(ended.chargedMicros * 2).toBe(ended.maxQuoteMicros)
    expect(await verdicts(job.id))
      .toEqual([['valid', 'deliverable', 'live'], ['unknown', 'cancelled', 'none']])
  })
})
