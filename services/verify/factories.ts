import type { Static } from 'typebox'
import type { verifyConfig } from './config.ts'
import { FACTORIES, type Factories } from './providers.ts'
import { createDns } from './providers/dns.ts'
import { createEmailDomainProvider } from './providers/email-domain.ts'
import { createHttpProvider } from './providers/http.ts'
import { readHttpProviders } from './providers/http-config.ts'
import { createMailDomains } from './providers/mail-domain.ts'

const SECOND_MS = 1_000

/** How each provider gets made that the configuration describes, and the others. */
export function factoriesOf (config: Static<typeof verifyConfig>): Factories {
  const described = readHttpProviders(config.HTTP_PROVIDERS).providers.map((vendor) =>
    [`http:${vendor.id}`, () => createHttpProvider(vendor)] as const)
  return {
    ...FACTORIES,
    'email-domain': () => createEmailDomainProvider({ domains: mailDomainsOf(config) }),
    ...Object.fromEntries(described),
  }
}

/** Without a resolver no domain is looked up. */
function mailDomainsOf (config: Static<typeof verifyConfig>) {
  if (config.DNS_SERVERS.length === 0) return undefined
  const dns = createDns({
    servers: config.DNS_SERVERS,
    timeoutMs: config.DNS_TIMEOUT_MS,
    concurrency: config.DNS_CONCURRENCY,
  })
  return createMailDomains(dns, {
    keepMs: config.DNS_CACHE_SECONDS * SECOND_MS,
    keepNegativeMs: config.DNS_NEGATIVE_CACHE_SECONDS * SECOND_MS,
    maxDomains: config.DNS_CACHE_DOMAINS,
  })
}
