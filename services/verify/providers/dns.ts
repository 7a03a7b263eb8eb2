import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { bulkhead } from 'cockatiel'

/** `none`: the name has no such records; `no_domain`: there is no such name. */
export type DnsAnswer<T> =
  | { readonly kind: 'found', readonly records: readonly T[] }
  | { readonly kind: 'none' | 'no_domain' | 'fault' }

export type MailExchange = { readonly host: string, readonly preference: number }

/** The questions asked of resolvers, which follow aliases (CNAME) themselves. */
export type DnsQuestions = {
  readonly mailExchanges: (domain: string) => Promise<DnsAnswer<MailExchange>>
  /** IPv6 addresses are asked for only when there are no others. */
  readonly addresses: (name: string) => Promise<DnsAnswer<string>>
}

export type DnsOptions = {
  /** `ip`, `ip:port` or `[ip]:port`. */
  readonly servers: readonly string[]
  readonly timeoutMs: number
  /** Questions under way at a time; further ones wait. */
  readonly concurrency: number
}

/** A lost datagram is usual, two in a row are not. */
const TRIES = 2

/** Whether a text names a resolver: an IP address, in brackets if it is IPv6 with a port. */
export function isServerAddress (text: string): boolean {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return false
  return isIP(text) !== 0 || isIP(bracketed ?? '') === 6 || isIP(plain ?? '') === 4
}

/** Asks the configured resolvers, never those of the machine. */
export function createDns ({ servers, timeoutMs, concurrency }: DnsOptions): DnsQuestions {
  const resolver = new Resolver({ timeout: timeoutMs, maxTimeout: timeoutMs, tries: TRIES })
  resolver.setServers(servers)
  const slots = bulkhead(concurrency, Number.MAX_SAFE_INTEGER)
  const ask = <T>(question: () => Promise<T[]>) => slots.execute(() => answerOf(question))
  return {
    mailExchanges: (domain) => ask(async () => (await resolver.resolveMx(domain))
      .map(({ exchange, priority }) => ({ host: exchange, preference: priority }))),
    addresses: async (name) => {
      const older = await ask(() => resolver.resolve4(name))
      if (older.kind === 'found' || older.kind === 'no_domain') return older
      const newer = await ask(() => resolver.resolve6(name))
      return newer.kind === 'none' ? older : newer
    },
  }
}

async function answerOf<T> (question: () => Promise<T[]>): Promise<DnsAnswer<T>> {
  try {
    const records = await question()
    return records.length > 0 ? { kind: 'found', records } : { kind: 'none' }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENODATA') return { kind: 'none' }
    return { kind: code === 'ENOTFOUND' ? 'no_domain' : 'fault' }
  }
}
