import { lookup } from 'node:dns/promises'
import { setTimeout } from 'node:timers/promises'

/** One sample of a metric in the text format of Prometheus. */
export type Sample = {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** Parses the samples of some metrics from the text format of Prometheus. */
function readSamples (
  text: string, names: ReadonlySet<string>
): readonly Sample[] {
  return text.split('\n').flatMap(line => {
    const [, name = '', labelText = '', value = ''] = LINE.exec(line) ?? []
    if (!names.has(name)) return []
    const labels = Object.fromEntries([...labelText.matchAll(LABEL)]
      .map(([, label = '', text = '']) =>
        [label, text.replace(/\\(.)/g, (_all, sign: string) => sign === 'n' ? '\n' : sign)]))
    return [{ name, labels, value: Number(value) }]
  })
}

type FetchOptions = {
  /** Names of the metrics to return. */
  readonly names: ReadonlySet<string>
  readonly timeoutMs: number
  /** Replaced in tests. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** The samples at a URL; undefined after a timeout or an error. */
export async function fetchSamples (
  target: string, { names, timeoutMs, fetch = globalThis.fetch }: FetchOptions
): Promise<readonly Sample[] | undefined> {
  try {
    const answer = await fetch(target, { signal: AbortSignal.timeout(timeoutMs) })
    return answer.ok ? readSamples(await answer.text(), names) : undefined
  } catch {
    return undefined
  }
}

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
  const addresses = await find(url.hostname).catch(() => [])
  // A dual-stack host has one address per family.
  const sameFamily = addresses.filter(({ family }) => family === addresses[0]?.family)
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
