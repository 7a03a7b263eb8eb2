import type { TObject } from 'typebox'
import { commonConfig } from '../../../services/runtime/platform/config.ts'
import { createDns } from '../../../services/verify/providers/mail-domains.ts'
import type { Say } from '../parts.ts'

const DNS_TIMEOUT_MS = 1_000

/** Which addresses webhooks may have, as services and commands read it. */
export type ReceiverSettings = Readonly<Record<
  'WEBHOOK_ALLOW_HTTP' | 'WEBHOOK_ALLOW_LOOPBACK', string>>

/**
 * The settings that services share, as far as none of these reads them, unset: a process of the
 * local stack has no address and no secret that it does not use.
 */
export async function unreadSettings (
  services: readonly string[]
): Promise<Readonly<Record<string, undefined>>> {
  const read = new Set((await Promise.all(services.map(listSettings))).flat())
  return Object.fromEntries(Object.keys(commonConfig)
    .filter(name => !read.has(name)).map(name => [name, undefined]))
}

async function listSettings (service: string): Promise<readonly string[]> {
  const file = new URL(`../../../services/${service}/config.ts`, import.meta.url)
  const exported = await import(file.href) as Readonly<Record<string, Partial<TObject>>>
  return Object.values(exported).flatMap(({ properties = {} }) => Object.keys(properties))
}

/** More environment for services on this machine: receivers of webhooks may run here, too. */
export function receiverEnvironment (env: NodeJS.ProcessEnv): ReceiverSettings {
  const { WEBHOOK_ALLOW_HTTP = 'true', WEBHOOK_ALLOW_LOOPBACK = 'true' } = env
  return { WEBHOOK_ALLOW_HTTP, WEBHOOK_ALLOW_LOOPBACK }
}

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
  return (await createDns({ timeoutMs: DNS_TIMEOUT_MS, concurrency: 1 }).root()).kind === 'found'
}
