import { lookup } from 'node:dns/promises'
import { setTimeout } from 'node:timers/promises'

/** All addresses of a host name, in the order of the resolver; replaced in tests. */
export type LookUp = (
  host: string
) => Promise<readonly { readonly address: string, readonly family: number }[]>

const LOOKUP_TIMEOUT_MS = 2_000

/**
 * Replaces each URL whose host has several addresses by one URL per address: a headless service in
 * Kubernetes resolves to all of its pods, and a service in Compose to all of its containers, while
 * a request by name reaches only one of them. A URL stays unchanged if its host has one address, if
 * the lookup fails or takes two seconds, and for HTTPS, as certificates are for names.
 */
export async function resolveAllAddresses (
  targets: readonly string[], find: LookUp = lookUp
): Promise<readonly string[]> {
  return (await Promise.all(targets.map(async target => await spread(target, find)))).flat()
}

async function spread (target: string, find: LookUp): Promise<readonly string[]> {
  if (!target.startsWith('http://') || !URL.canParse(target)) return [target]
  const url = new URL(target)
  const found = await find(url.hostname).catch(() => [])
  // A dual-stack host has one address per family.
  const sameFamily = found.filter(({ family }) => family === found[0]?.family)
  if (sameFamily.length < 2) return [target]
  return sameFamily.map(({ address, family }) => {
    url.hostname = family === 6 ? `[${address}]` : address
    return url.href
  }).toSorted()
}

const lookUp: LookUp = async host =>
  await Promise.race([
    lookup(host, { all: true }), setTimeout(LOOKUP_TIMEOUT_MS, [], { ref: false }),
  ])
