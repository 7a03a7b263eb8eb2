import { createDns } from '../../services/verify/providers/mail-domains.ts'
import type { Say } from './parts.ts'

const TIMEOUT_MS = 1_000

/**
 * More environment for services on this machine: without `DNS_SERVERS` and with no access to the
 * DNS, domains of e-mail addresses are not checked, which `GET /services` then shows.
 */
export async function dnsEnvironment (
  env: NodeJS.ProcessEnv, say: Say, hasDns: () => Promise<boolean> = systemHasDns
): Promise<{ readonly DNS_SERVERS?: string }> {
  if (env.DNS_SERVERS !== undefined || await hasDns()) return {}
  say('the resolvers of this machine do not answer for the root zone of the DNS: domains of ' +
    'e-mail addresses are not checked (DNS_SERVERS names other resolvers)')
  return { DNS_SERVERS: '' }
}

async function systemHasDns (): Promise<boolean> {
  return (await createDns({ timeoutMs: TIMEOUT_MS, concurrency: 1 }).root()).kind === 'found'
}
