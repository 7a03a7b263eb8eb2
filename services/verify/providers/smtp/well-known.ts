/** Top-level domains of one or two labels, as large hosts use them for their countries. */
const ANYWHERE = String.raw`(?:com|[a-z]{2}|com?\.[a-z]{2})`

/** Free hosts that refuse names they don't have, and dislike being asked about made-up ones. */
const TRUTHFUL = new RegExp(`^(?:${[
  'gmail\\.com', 'googlemail\\.com', `hotmail\\.${ANYWHERE}`, `outlook\\.${ANYWHERE}`,
  `live\\.${ANYWHERE}`, 'windowslive\\.com', 'msn\\.com', `yahoo\\.${ANYWHERE}`, 'ymail\\.com',
  'rocketmail\\.com',
].join('|')})$`)

/** Hosts that take mail for any name and sort it out later. */
const ACCEPTING: ReadonlySet<string> = new Set([
  'mail.ru', 'bk.ru', 'inbox.ru', 'internet.ru', 'list.ru',
])

/** Whether a domain's servers need no test with a made-up name. */
export function tellsTheTruth (domain: string): boolean {
  return TRUTHFUL.test(domain)
}

/** Whether a domain's servers are known to take mail for any name. */
export function acceptsAnyone (domain: string): boolean {
  return ACCEPTING.has(domain)
}
