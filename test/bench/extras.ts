import { resolve } from 'node:path'
import { startDnsServer } from '../support/dns-server.ts'
import type { BenchOptions } from './options.ts'
import { mailZones } from './parts/email.ts'
import { LOCAL_RECEIVERS } from './parts/webhooks.ts'

export type Extras = {
  /** More environment for every service. */
  readonly overrides: Readonly<Record<string, string>>
  readonly stop: () => Promise<void>
}

/** What some options need around the services; without those nothing is different. */
export async function startExtras (
  { parts, profile }: Pick<BenchOptions, 'parts' | 'profile'>
): Promise<Extras> {
  const dns = parts.has('email') ? await startDnsServer(mailZones()) : undefined
  return {
    overrides: {
      ...profile !== undefined && profiling(profile),
      ...parts.has('webhooks') && LOCAL_RECEIVERS,
      ...dns !== undefined && { DNS_SERVERS: dns.address },
    },
    stop: async () => { await dns?.stop() },
  }
}

/** A profile is written when a service stops; it opens in the performance tools of a browser. */
function profiling (folder: string) {
  return { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${resolve(folder)}` }
}
