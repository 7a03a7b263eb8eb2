import { freePort } from '../../../deploy/local/ports.ts'
import type { Addresses } from '../../../deploy/local/source.ts'
import { startKafkaProxy } from '../../support/kafka/proxy.ts'
import { startToxiproxy, type ToxicLink } from '../../support/stacks/toxiproxy.ts'
import type { Preparation } from '../fault.ts'
import type { FaultStack } from '../stack.ts'

/** The parts of the stack whose links to the services can be disturbed. */
export const LINKED = ['kafka', 'redis-state', 'redis-cache', 'clickhouse', 'registry'] as const
export type Linked = typeof LINKED[number]

export type Links = Preparation & { readonly of: (part: Linked) => ToxicLink }

const URLS: readonly (readonly [Exclude<Linked, 'kafka'>, keyof Addresses])[] = [
  ['redis-state', 'REDIS_STATE_URL'],
  ['redis-cache', 'REDIS_CACHE_URL'],
  ['clickhouse', 'CLICKHOUSE_URL'],
  ['registry', 'SCHEMA_REGISTRY_URL'],
]

/** Puts toxiproxy between the services and every part of their stack. */
export async function openLinks ({ addresses }: FaultStack, seed: number): Promise<Links> {
  const toxiproxy = await startToxiproxy({ seed, say: console.log })
  const kafkaPort = await freePort()
  // Brokers advertise their addresses; the frame-aware proxy replaces them with the link.
  const frames = await startKafkaProxy({
    brokers: addresses.KAFKA_BROKERS.split(','), namePort: () => kafkaPort,
  })
  const opened = new Map<Linked, ToxicLink>()
  opened.set('kafka', await toxiproxy.link('kafka', frames.addresses[0] ?? '', kafkaPort))
  const links: { -readonly [K in keyof Addresses]?: string } = {
    KAFKA_BROKERS: `127.0.0.1:${kafkaPort}`,
  }
  for (const [part, key] of URLS) {
    const url = new URL(addresses[key])
    const link = await toxiproxy.link(part, url.host)
    opened.set(part, link)
    url.port = String(link.port)
    // A URL ends with a slash, so that clients can append paths.
    links[key] = url.pathname === '/' ? url.href.replace(/\/$/, '') : url.href
  }
  return {
    links,
    of: part => {
      const link = opened.get(part)
      if (link === undefined) throw new Error(`there is no link to ${part}`)
      return link
    },
    close: async () => {
      await frames.close()
      await toxiproxy.stop()
    },
  }
}
