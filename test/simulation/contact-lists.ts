import type { ReadableLists } from '../../services/lookup/read.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import type { Chaos } from './chaos.ts'

/** Every other run has organizations with lists. */
export const hasLists = (seed: number): boolean => seed % 2 === 1

/** Contacts that are always suppressed; the provider would find them valid. */
export const isSuppressed = (contact: string): boolean => contact.endsWith('4')
/** Contacts that are suppressed at times. */
export const isReleasedAtTimes = (contact: string): boolean => /[1567]\D*$/.test(contact)

/**
 * Lists that change between any two reads of `lookup`, also of one job: contacts of some endings
 * are suppressed at times, and those of others allowed. Redis may have lost them for a while. What
 * the store itself does is the subject of its own tests.
 */
export function changingLists (chaos: Chaos, lost: number): ReadableLists {
  return {
    find: async (_orgId, contacts) => {
      await sleep(chaos.below(3))
      if (chaos.happens(lost)) throw new InfrastructureError('RECOVERING lists are locked')
      const suppresses = chaos.happens(0.5)
      const allows = chaos.happens(0.3)
      return contacts.map(contact => {
        if (isSuppressed(contact) || (suppresses && isReleasedAtTimes(contact))) return 'suppress'
        return allows && /[09]$/.test(contact) ? 'allow' : undefined
      })
    },
    hasMailServers: async () => false,
  }
}
