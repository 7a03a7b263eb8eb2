/** Names of hosts; what a name server answers may have any bytes. */
const HOST_NAME = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+$/
const MAX_LENGTH = 253
/** Further labels of a domain are not masked; a digit names a label. */
const MAX_LABELS = 9

/** The name of a mail exchange as results show it; undefined for what is no name of a host. */
export function exchangeName (host: string): string | undefined {
  const name = host.toLowerCase().replace(/\.$/, '')
  return name.length <= MAX_LENGTH && HOST_NAME.test(name) ? name : undefined
}

/**
 * The name of a mail exchange of a domain without the labels of that domain, as it may be stored in
 * clear: `mail.*1.org` for `mail.firm.org` of `firm.org`. `unmaskExchange` restores it.
 */
export function maskExchange (exchange: string, domain: string): string {
  const labels = maskedLabels(domain)
  const words = labels.toSorted((a, b) => b.length - a.length)
  if (words.length === 0) return exchange
  return exchange.replaceAll(new RegExp(words.join('|'), 'g'), label =>
    `*${labels.indexOf(label) + 1}`)
}

/** The name of a mail exchange that was masked for the same domain. */
export function unmaskExchange (masked: string, domain: string): string {
  if (!masked.includes('*')) return masked
  const labels = maskedLabels(domain)
  return masked.replaceAll(/\*(\d)/g, (_, place: string) => labels[Number(place) - 1] ?? '')
}

/** The labels before the top-level domain, from right to left. */
function maskedLabels (domain: string): readonly string[] {
  return domain.split('.').toReversed().slice(1, MAX_LABELS + 1)
}
