import { isAnyOf, ownerOfDomain, ownerOfExchange, type MailOwner } from './owners.ts'

/**
 * One form for all forms of an address that reach the same mailbox, by the rules of its owner: in
 * lower case, without tag, and for some owners without dots and at one domain. `exchange` is the
 * mail exchange of the domain, blank if it is not known: then only the own domains of owners have
 * rules. A form maps to itself.
 */
export function normalizedMailbox (address: string, exchange = ''): string {
  const lower = address.toLowerCase()
  const at = lower.lastIndexOf('@')
  const local = lower.slice(0, at)
  // A quoted name may contain anything.
  if (local.startsWith('"')) return lower
  const domain = lower.slice(at + 1)
  const serving = exchange === '' ? undefined : ownerOfExchange(exchange)
  // Another server does not follow the rules of the owner of the domain.
  const ownerOf = (name: string) => {
    const owner = ownerOfDomain(name)
    return exchange === '' || owner === serving ? owner : undefined
  }
  const parent = domain.slice(domain.indexOf('.') + 1)
  if (ownerOf(parent)?.mailbox?.subdomains === true) {
    return `${domain.slice(0, -parent.length - 1)}@${parent}`
  }
  const owner = ownerOf(domain)
  if (owner !== undefined) return atOwnDomain(local, domain, owner)
  const rule = serving?.mailbox
  return rule?.forCustomers === true ? `${withoutTag(local, rule.tag)}@${domain}` : lower
}

function atOwnDomain (local: string, domain: string, { mailbox }: MailOwner): string {
  const hasRule = mailbox !== undefined &&
    (mailbox.only === undefined || isAnyOf(domain, mailbox.only))
  if (!hasRule) return `${local}@${domain}`
  const { tag, ignored = '', oneDomain = domain } = mailbox
  const base = withoutTag(local, tag)
  let counted = base
  for (const sign of ignored) counted = counted.replaceAll(sign, '')
  return `${counted === '' ? base : counted}@${oneDomain}`
}

/** A name that begins with the sign has no tag. */
function withoutTag (local: string, tag: string): string {
  const at = local.indexOf(tag)
  return at > 0 ? local.slice(0, at) : local
}
