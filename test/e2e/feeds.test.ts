import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { FileContact } from '../../services/client/feed-files.ts'
import { runAudit } from '../support/audit.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { createTestPartner, feedContacts } from '../support/partner.ts'
import { breachesOf, startEnvironment, type Environment } from '../support/environment.ts'

/** The story of 250,000 belongs to the full tests. */
const CONTACTS = Number(process.env['FEED_CONTACTS'] ?? 4_000)
/** So that a killed service has jobs behind and before it. */
const BATCH = Math.ceil(CONTACTS / 10)

let environment: Environment
beforeAll(async () => {
  environment = await startEnvironment({
    FEED_BATCH_CONTACTS: String(BATCH), FEED_BATCH_AGE_MS: '1000', FEED_PAUSE_AFTER_MS: '1000',
  }, { stages: ['feed'], apart: ['settle', 'publish'] })
})
afterAll(async () => { await environment.stop() })

const named = (inputs: readonly string[]): FileContact[] => inputs.map((input, index) =>
  ({ input, reference: `customer-${index}`, countryCode: undefined }))

describe('a bulk feed', () => {
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
    expect(await breachesOf(environment.env, partner.org)).toEqual([])
  })

  it('is independent of another partner without balance', async () => {
    const poor = await createTestPartner(environment.env)
    const rich = await createTestPartner(environment.env, { usd: '1000' })
    const waiting = feedContacts(poor, named(mixedPhones(600, 6_000_000)))
    const { summary } = await feedContacts(rich, named(mixedPhones(2_000, 7_000_000)))
    expect(summary.results).toBe(2_000)
    // All of it came while the other one still waits for its first result.
    const early = await Promise.race([waiting, Promise.resolve('waiting')])
    expect(early).toBe('waiting')
    await poor.topUp('1000')
    expect((await waiting).summary.results).toBe(600)
    expect(await breachesOf(environment.env, poor.org, rich.org)).toEqual([])
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
