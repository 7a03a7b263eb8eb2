import { tenantOf } from '../../services/accounts/tenant.ts'
import { runAudit } from '../../services/admin/audit/command.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { createTestPartner, feedContacts } from '../support/feeds/partner.ts'

export type FeedLoad = {
  /** No further contacts; resolves with what broke: a contact without one result, or money. */
  readonly stop: () => Promise<readonly string[]>
}

const AT_ONCE = 30

/** A partner that sends contacts, some at a time, and waits for a result of each. */
export async function startFeedLoad (
  env: Record<string, string>, firstSerial: number
): Promise<FeedLoad> {
  const partner = await createTestPartner(env, { usd: '500' })
  const breaches: string[] = []
  const stopping = new AbortController()
  let serial = firstSerial
  const run = async () => {
    while (!stopping.signal.aborted) {
      const inputs = mixedPhones(AT_ONCE, serial)
      serial += AT_ONCE
      const contacts = inputs.map((input, index) =>
        ({ input, reference: `contact-${serial}-${index}`, countryCode: undefined }))
      const { results } = await feedContacts(partner, contacts)
      const answered = new Set(results.map(({ reference }) => reference))
      const without = contacts.filter(({ reference }) => !answered.has(reference))
      if (without.length > 0 || results.length !== contacts.length) {
        breaches.push(`feed: ${results.length} results of ${contacts.length} contacts, ` +
          `${without.length} of them without any`)
      }
    }
  }
  const running = run().catch(error => { breaches.push(`feed: ${String(error)}`) })
  return {
    stop: async () => {
      stopping.abort()
      await running
      const only = [tenantOf(partner.org, 'live')]
      const { breaches: found } = await runAudit(env, { only, waitMs: 240_000 })
      return [...breaches, ...found.map(breach => `feed: ${JSON.stringify(breach)}`)]
    },
  }
}
