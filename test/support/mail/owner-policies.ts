import { MAIL_OWNERS } from '../../../services/mail/owners.ts'
import {
  ownerLabel, type OwnerPolicy, findPolicy,
} from '../../../services/verify/mailboxes/policies.ts'

const LIMITS = { sessions: 7, sessionsAMinute: 70, ratePercent: 100 }

/** The policies of the owners that have limits of their own, at their own domains. */
export function ownerPolicies (): readonly OwnerPolicy[] {
  return MAIL_OWNERS.filter(({ owner }) => ownerLabel(owner) === owner)
    .map(({ domains: [domain = 'firm.de'], exchanges: [exchange = ''] }) => {
      const [ownDomain, ownExchange] = [domain, exchange].map(name =>
        name.replace('{country}', 'com').replace('*', 'mx')) as [string, string]
      return findPolicy(ownDomain, ownExchange, LIMITS)
    })
}
