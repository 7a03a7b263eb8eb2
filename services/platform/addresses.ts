import { lookup } from 'node:dns/promises'
import { setTimeout } from 'node:timers/promises'

/** Every address of a name, in the order of the system; replaced by tests. */
export type FindAddresses = (
  host: string
) => Promise<readonly { readonly address: string, readonly family: number }[]>

const FIND_WITHIN_MS = 2_000

/**
 * The same HTTP addresses, where a name that stands for several machines is replaced by them: the
 * name of a headless service in Kubernetes is all of its pods, and that of a service in compose all
 * of its containers, while a request by name would meet one of them by chance. What is a name of
 * one machine, cannot be found within two seconds, or speaks HTTPS (a certificate is for a name)
 * stays as it is.
 */
export async function everyAddress (
  targets: readonly string[], find: FindAddresses = findAddresses
): Promise<readonly string[]> {
  return (await Promise.all(targets.map(async target => await spread(target, find)))).flat()
}

async function spread (target: string, find: FindAddresses): Promise<readonly string[]> {
  if (!target.startsWith('http://') || !URL.canParse(target)) return [target]
  const url = new URL(target)
  const found = await find(url.hostname).catch(() => [])
  // Both kinds of address of one machine are one machine.
  const alike = found.filter(({ family }) => family === found[0]?.family)
  if (alike.length < 2) return [target]
  return alike.map(({ address, family }) => {
    url.hostname = family === 6 ? `[${address}]` : address
    return url.href
  }).toSorted()
}

const findAddresses: FindAddresses = async host =>
  await Promise.race([
    lookup(host, { all: true }), setTimeout(FIND_WITHIN_MS, [], { ref: false }),
  ])
