import type { ReadableLists } from '../../services/lookup/read.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import type { Chaos } from './chaos.ts'

/** Every other run has organizations with lists. */
export const hasLists = (seed: number): boolean => seed % 2 === 1

/** Contacts that are suppressed before the first job; the provider would find them valid. */
export const isSuppressed = (contact: string): boolean => contact.endsWith('4')

/**
 * Lists that change between any two reads of `lookup`, also of one job: contacts are suppressed one
 * ending after another, and those of other endings are allowed at times. Redis may have lost them
 * for a while. What the store itself does is the subject of its own tests.
 */
export function changingLists (chaos: Chaos, lost: number): ReadableLists {
  const next = ['7', '5', '1', '6']
  const added: string[] = []
  return {
    find: async (_orgId, contacts) => {
      await sleep(chaos.below(3))
      if (chaos.happens(lost)) throw new InfrastructureError('RECOVERING lists are locked')
      if (chaos.happens(0.2)) added.push(...next.splice(0, 1))
      const allows = chaos.happens(0.3)
      return contacts.map(contact => {
        if (isSuppressed(contact) || added.includes(contact.slice(-1))) return 'suppress'
        return allows && /[09]$/.test(contact) ? 'allow' : undefined
      })
    },
    hasMailServers: async () => false,
  }
}
