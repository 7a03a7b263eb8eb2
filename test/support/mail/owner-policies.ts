import { MAIL_OWNERS } from '../../../services/mail/owners.ts'
import {
  listPlaces, ownerLabel, type OwnerPolicy, type PolicyLimits,
} from '../../../services/verify/mailboxes/policies.ts'

const LIMITS = { sessions: 7, sessionsAMinute: 70, ratePercent: 100 }

/** The policy of a domain at an exchange. */
export function policyAt (domain: string, exchange: string, limits: PolicyLimits): OwnerPolicy {
  const [place] = listPlaces(domain, { name: exchange, addresses: ['192.0.2.1'] }, limits)
  if (place === undefined) throw new Error(`no place at ${exchange}`)
  return place.policy
}

/** The policies of the owners that have limits of their own, at their own domains. */
export function ownerPolicies (): readonly OwnerPolicy[] {
  return MAIL_OWNERS.filter(({ owner }) => ownerLabel(owner) === owner)
    .map(({ domains: [domain = 'firm.de'], exchanges: [exchange = ''] }) => {
      const [ownDomain, ownExchange] = [domain, exchange].map(name =>
        name.replace('{country}', 'com').replace('*', 'mx')) as [string, string]
      return policyAt(ownDomain, ownExchange, LIMITS)
    })
}
