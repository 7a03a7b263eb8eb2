/**
 * What an accepted recipient means at hosts whose ways are known. `truthful`: they refuse unknown
 * names, and may block clients that try made-up ones, so none is tried. `accepts_any`: they accept
 * every name and bounce the mail later, so only a refusal is an answer. All other domains are
 * tested with a made-up name.
 */
export type ServerPolicy = {
  readonly name: string
  readonly acceptance: 'truthful' | 'accepts_any'
  /** Mail domains; `{country}` is any of `com`, `de`, `co.uk`, `com.br` and the like. */
  readonly domains: readonly string[]
  /** Domains of the mail exchanges, for customers' domains at the host. */
  readonly exchanges?: readonly string[]
}

/** A host moves to `truthful` when tests of real and of unknown names have shown that it is. */
const SERVER_POLICIES: readonly ServerPolicy[] = [
  { name: 'Gmail', acceptance: 'truthful', domains: ['gmail.com', 'googlemail.com'] },
  {
    name: 'Outlook.com',
    acceptance: 'truthful',
    domains: ['hotmail.{country}', 'outlook.{country}', 'live.{country}', 'windowslive.com',
      'msn.com'],
  },
  {
    name: 'Yahoo and AOL',
    acceptance: 'accepts_any',
    domains: ['yahoo.{country}', 'ymail.com', 'rocketmail.com', 'myyahoo.com', 'aol.{country}',
      'aim.com', 'netscape.net', 'verizon.net'],
    exchanges: ['yahoodns.net'],
  },
  {
    name: 'Mail.ru',
    acceptance: 'accepts_any',
    domains: ['mail.ru', 'bk.ru', 'inbox.ru', 'internet.ru', 'list.ru'],
  },
]

const COUNTRY = '{country}'
const ANY_COUNTRY = /^(?:com|[a-z]{2}|com?\.[a-z]{2})$/

/** The policy of the host that serves a mail domain by the given mail exchange. */
export function findPolicy (domain: string, exchange = ''): ServerPolicy | undefined {
  return SERVER_POLICIES.find(({ domains, exchanges = [] }) =>
    domains.some((pattern) => matchesDomain(pattern, domain)) ||
    exchanges.some((owner) => exchange === owner || exchange.endsWith(`.${owner}`)))
}

function matchesDomain (pattern: string, domain: string): boolean {
  if (!pattern.endsWith(COUNTRY)) return pattern === domain
  const name = pattern.slice(0, -COUNTRY.length)
  return domain.startsWith(name) && ANY_COUNTRY.test(domain.slice(name.length))
}
