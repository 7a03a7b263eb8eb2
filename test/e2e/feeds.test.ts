import type { KafkaAdmin } from '../../services/runtime/kafka/client.ts'
import { describe, expect, it } from 'vitest'
import { createTopics, withAdmin } from '../../services/runtime/kafka/admin.ts'
import { partnerTopics } from '../../services/runtime/platform/topics.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { runAudit } from '../support/audit.ts'
import { eventually } from '../support/eventually.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { createTestPartner, feedContacts, type FileContact } from '../support/feeds/partner.ts'
import { findRepeats } from '../support/recovery/repeats.ts'
import { breachesOf, startEnvironment } from '../support/stacks/environment.ts'

/** The story of 250,000 belongs to the full tests. */
const CONTACTS = Number(process.env['FEED_CONTACTS'] ?? 4_000)
/** So that a killed service has jobs behind and before it. */
const BATCH = Math.ceil(CONTACTS / 10)

const environment = closeAfterAll(await startEnvironment({
  FEED_BATCH_CONTACTS: String(BATCH),
  FEED_BATCH_AGE_MS: '1000',
  FEED_PAUSE_AFTER_MS: '1000',
  // Every job is slower than this, as on a busy machine.
  ORPHAN_AGE_MS: '0',
  REAP_EVERY_MS: '10',
}, { stages: ['feed', 'ledger'], apart: ['feed', 'settle', 'publish'] }))

const named = (inputs: readonly string[]): FileContact[] => inputs.map((input, index) =>
  ({ input, reference: `customer-${index}`, countryCode: undefined }))

describe('a bulk feed', () => {
  it('sends nothing twice while nothing fails, however slow its jobs are', async () => {
    const partner = await createTestPartner(environment.env, { usd: '10000' })
    const sinceMs = Date.now()
    const { summary } = await feedContacts(partner, named(mixedPhones(CONTACTS, 4_000_000)))
    expect([summary.results, summary.repeated]).toEqual([CONTACTS, 0])
    await eventually(async () =>
      expect(await breachesOf(environment.env, partner.org)).toEqual([]))
    const scope = { sinceMs, tenant: `${partner.org}.live` }
    expect(await findRepeats(environment.env, scope)).toEqual([])
  })

  it('yields one result per contact, though feed, settle and publish are killed', async () => {
    const partner = await createTestPartner(environment.env, { usd: '10000' })
    const contacts = named(mixedPhones(CONTACTS, 5_000_000))
    const kills = new Map([
      ['feed-1', CONTACTS * 0.1], ['settle-1', CONTACTS * 0.2], ['publish-1', CONTACTS * 0.4],
    ])
    const startedAt = Date.now()
    const { summary, results } = await feedContacts(partner, contacts, {
      onProgress: ({ results: count }) => {
        for (const [name, at] of kills) {
          if (count < at) continue
          kills.delete(name)
          environment.services.kill(name, 'SIGKILL')
        }
      },
    })
    console.log(`${CONTACTS} contacts in ${Date.now() - startedAt} ms`, summary)
    expect([...kills.keys()]).toEqual([])
    expect(new Set(results.map(({ resultId }) => resultId)).size).toBe(CONTACTS)
    const byReference = new Map(results.map(({ reference, cells }) => [reference, cells]))
    expect(byReference.size).toBe(CONTACTS)
    expect(contacts.map(({ reference = '' }) => byReference.get(reference)?.['input']))
      .toEqual(contacts.map(({ input }) => input))
    expect(summary.byStatus['valid']).toBeGreaterThan(CONTACTS / 2)
    expect(results.filter(({ cells }) => cells['checks'] === undefined)).toEqual([])
    const confident = results.map(({ cells }) => cells['confidence'])
      .filter(confidence => confidence !== undefined)
    expect(confident.length).toBeGreaterThan(CONTACTS / 2)
    expect(confident.filter(confidence => typeof confidence !== 'number')).toEqual([])
    expect(await breachesOf(environment.env, partner.org)).toEqual([])
  })

  it('publishes results while the result topic of another partner is missing', async () => {
    const { env } = environment
    const brokers = env['KAFKA_BROKERS']?.split(',') ?? []
    const onAdmin = <T>(work: (admin: KafkaAdmin) => Promise<T>) => withAdmin({ brokers }, work)
    const sizeOf = async (topic: string) => (await onAdmin(admin => admin.fetchTopicOffsets(topic)))
      .reduce((sum, { high }) => sum + Number(high), 0)
    const stuck = await createTestPartner(env, { usd: '1000' })
    const healthy = await createTestPartner(env, { usd: '1000' })
    const [topic] = partnerTopics(stuck.name, 4).filter(({ name }) => name.endsWith('.finished'))
    const { name } = topic!
    const settled = await sizeOf('jobs.settled')
    const feed = await stuck.connect()
    await onAdmin(admin => admin.deleteTopics({ topics: [name] }))
    // At least one job in each partition, and so in both partitions of jobs.settled.
    await feed.send(mixedPhones(40, 9_000_000).map((input, index) => ({
      input,
      reference: `c${index}`,
      service: 'phone-validation',
      countryCode: 'US',
      forceFresh: false,
    })))
    await feed.close()
    await eventually(async () =>
      expect(await sizeOf('jobs.settled')).toBeGreaterThanOrEqual(settled + 4))
    const { summary } = await feedContacts(healthy, named(mixedPhones(2_000, 9_100_000)))
    expect(summary.results).toBe(2_000)
    await onAdmin(admin => createTopics(admin, [topic!], {}))
    await eventually(async () => expect(await sizeOf(name)).toBeGreaterThanOrEqual(40))
    expect(await breachesOf(env, stuck.org, healthy.org)).toEqual([])
  })

  it('returns contacts that cannot be a row, free of charge', async () => {
    const prices = '{"phone-validation":5}'
    const partner = await createTestPartner(environment.env, { usd: '1', prices })
    const good = await feedContacts(partner, named(['+12127365000', 'call me']))
    expect(good.results.map(({ reference, cells }) => [reference, cells['status']]).toSorted())
      .toEqual([['customer-0', 'valid'], ['customer-1', 'invalid']])
    const odd = await feedContacts(partner, named(['+12127365001']), { service: 'fortune-telling' })
    expect(odd.results.map(({ cells }) => [cells['status'], cells['reason']]))
      .toEqual([['invalid', 'unknown_service']])
    const audit = await runAudit(environment.env, { only: [`${partner.org}.live`] })
    expect([audit.breaches, audit.tenants[0]?.chargedMicros]).toEqual([[], 5])
  })
})
