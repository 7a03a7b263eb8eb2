import type { FeedContact } from '../../schemas/types.ts'
import type { ContactResult, PartnerResults, ResultsOf } from '../records/partner-results.ts'
import type { Contact, ContactFault, Terms } from './contact.ts'

/** A contact that never becomes a row. */
export type FaultyContact = {
  readonly offset: number
  readonly value: Pick<FeedContact, 'reference' | 'service'>
  readonly fault: ContactFault
}

type Of = Omit<ResultsOf, 'service'>

export type Faults = {
  /** Tells the partner what is wrong with its contacts; resolves when that is acknowledged. */
  readonly answer: (
    of: Of, contacts: readonly FaultyContact[], signal?: AbortSignal,
  ) => Promise<void>
  /** Tells the partner that no job can be made of a contact, through no fault of its own. */
  readonly giveUp: (
    of: Of, what: { readonly contact: Contact, readonly terms: Terms }, signal?: AbortSignal,
  ) => Promise<void>
}

/** Results of contacts that are in no job: free, like every row that fails its preflight. */
export function createFaults (
  { results, now }: { readonly results: PartnerResults, readonly now: () => number }
): Faults {
  const cells = (status: 'invalid' | 'unknown', reason: string, confidence: string) => {
    const at = new Date(now()).toISOString()
    return { status, reason, source: 'preflight', confidence, checked_at: at, expires_at: at }
  }
  return {
    answer: async (of, contacts, signal) => {
      for (const [service, some] of Map.groupBy(contacts, ({ value }) => value.service)) {
        const told = some.map(({ offset, value, fault }): ContactResult =>
          ({ offset, reference: value.reference, cells: cells('invalid', fault, '100') }))
        await results.send({ ...of, service }, told, signal)
      }
    },
    giveUp: async (of, { contact: { offset, reference, input }, terms: { service } }, signal) => {
      const told = { ...cells('unknown', 'internal', '0'), input }
      await results.send({ ...of, service }, [{ offset, reference, cells: told }], signal)
    },
  }
}
