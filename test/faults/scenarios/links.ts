import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../../deploy/local/ports.ts'
import type { Addresses } from '../../../deploy/local/source.ts'
import type { Fault, Injected, Preparation, Scene } from '../fault.ts'
import type { FaultStack } from '../stack.ts'
import { installToxiproxy } from '../../support/deploy/tools.ts'
import { newFolder } from '../../support/folder.ts'
import { startKafkaProxy } from '../../support/kafka/proxy.ts'
import { createPart } from '../../support/stacks/processes.ts'

/** `downstream` is what the client reads, `upstream` what it writes. */
type Stream = 'upstream' | 'downstream'

/** What a link can be made to do to the bytes that pass it, by toxiproxy's own names. */
type Toxic = { readonly stream: Stream } & (
  | {
    readonly type: 'latency'
    readonly attributes: { readonly latency: number, readonly jitter: number }
  }
  /** In kilobytes a second. */
  | { readonly type: 'bandwidth', readonly attributes: { readonly rate: number } }
  /** Resets the connection so many milliseconds after the first bytes, which are lost. */
  | { readonly type: 'reset_peer', readonly attributes: { readonly timeout: number } }
  /** Nothing passes any longer; the connection stays when the time is 0. */
  | { readonly type: 'timeout', readonly attributes: { readonly timeout: number } }
)

type ToxicLink = {
  /** Where clients connect. */
  readonly port: number
  /** Adds a toxic to every connection there is and will be; resolves to what removes it. */
  readonly add: (toxic: Toxic) => Promise<() => Promise<void>>
  /** Drops every connection and refuses new ones, until `join`. */
  readonly cut: () => Promise<void>
  readonly join: () => Promise<void>
}

/** Starts toxiproxy, whose toxics are the same in each run. */
async function startToxiproxy () {
  const command = await installToxiproxy(console.log)
  const dataDir = newFolder('verification-jobs-toxiproxy-')
  const apiPort = await freePort()
  const api = createApi(`http://127.0.0.1:${apiPort}`)
  const ready = () => api('GET', '/version').then(() => true, () => false)
  const args = ['-host', '127.0.0.1', '-port', String(apiPort), '-seed', '1']
  const part = createPart({ name: 'toxiproxy', command, args, dataDir, ready, graceMs: 0 })
  await part.up()
  const stop = async () => {
    await part.down()
    rmSync(dataDir, { recursive: true, force: true })
  }
  return {
    stop,
    /** A link to `host:port`; at a port of its own, or at the one that is given. */
    link: async (name: string, upstream: string, givenPort?: number) => {
      const port = givenPort ?? await freePort()
      await api('POST', '/proxies', { name, upstream, listen: `127.0.0.1:${port}`, enabled: true })
      return createLink(api, name, port)
    },
  }
}

type Api = (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) => Promise<void>

function createLink (api: Api, name: string, port: number): ToxicLink {
  let toxics = 0
  return {
    port,
    add: async toxic => {
      const toxicName = `toxic-${toxics++}`
      await api('POST', `/proxies/${name}/toxics`, { name: toxicName, toxicity: 1, ...toxic })
      return () => api('DELETE', `/proxies/${name}/toxics/${toxicName}`)
    },
    cut: () => api('POST', `/proxies/${name}`, { enabled: false }),
    join: () => api('POST', `/proxies/${name}`, { enabled: true }),
  }
}

function createApi (baseUrl: string): Api {
  return async (method, path, body) => {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      ...body !== undefined && { body: JSON.stringify(body) },
      signal: AbortSignal.timeout(15_000),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`toxiproxy refused ${method} ${path}: ${text}`)
  }
}

/** The parts of the stack whose links to the services can be disturbed. */
const LINKED = ['kafka', 'redis-state', 'redis-cache', 'clickhouse', 'registry'] as const
type Linked = typeof LINKED[number]

type Links = Preparation & { readonly of: (part: Linked) => ToxicLink }

const URLS: readonly (readonly [Exclude<Linked, 'kafka'>, keyof Addresses])[] = [
  ['redis-state', 'REDIS_STATE_URL'],
  ['redis-cache', 'REDIS_CACHE_URL'],
  ['clickhouse', 'CLICKHOUSE_URL'],
  ['registry', 'SCHEMA_REGISTRY_URL'],
]

/** Puts toxiproxy between the services and every part of their stack. */
async function openLinks ({ addresses }: FaultStack): Promise<Links> {
  const toxiproxy = await startToxiproxy()
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

/** Disturbs one link; resolves to the function that restores it. */
type Disturb = (link: ToxicLink) => Promise<() => Promise<void>>

type Plan = {
  readonly name: string
  readonly about: string
  readonly parts: readonly Linked[]
  readonly forMs: number
  readonly disturb: Disturb
  /** What is done while the link is disturbed. */
  readonly meanwhile?: (scene: Scene, part: Linked) => Promise<void>
}

const GO_ON_WITHIN_MS = 90_000

/** Disturbs one link after another, and waits for work to continue after each. */
function disturbLinks ({ name, about, parts, forMs, disturb, meanwhile }: Plan): Fault {
  let links: Links | undefined
  return {
    name,
    kind: 'link',
    about,
    prepare: async stack => {
      links = await openLinks(stack)
      return links
    },
    inject: async scene => {
      const recoveryMs: number[] = []
      const breaches: string[] = []
      for (const part of parts) {
        await scene.load.untilEnded(2)
        const link = links?.of(part)
        if (link === undefined) throw new Error('the links are not open')
        const heal = await disturb(link)
        await meanwhile?.(scene, part)
        await sleep(forMs * (0.75 + scene.random() / 2))
        await heal()
        recoveryMs.push(await workGoesOn(scene, part, breaches))
      }
      return { injected: parts.length, recoveryMs, breaches } satisfies Injected
    },
  }
}

/** The time until a job ends that was accepted after the link was healed. */
async function workGoesOn (
  { load, say }: Scene, part: Linked, breaches: string[]
): Promise<number> {
  const healedMs = Date.now()
  const endMs = await load.nextEnd(healedMs, GO_ON_WITHIN_MS)
  if (endMs === undefined) breaches.push(`no job ended after the link to ${part} was healed`)
  const recoveryMs = (endMs ?? Infinity) - healedMs
  say(`${part}: a new job ended ${recoveryMs} ms after the link was healed`)
  return recoveryMs
}

const toxic = (...toxics: readonly Toxic[]): Disturb => async link => {
  const heals = await Promise.all(toxics.map(link.add))
  return async () => { await Promise.all(heals.map(heal => heal())) }
}

const cut: Disturb = async link => {
  await link.cut()
  return link.join
}

/** Only a starting service calls the registry. */
const restartOne = async ({ environment }: Scene, part: Linked): Promise<void> => {
  if (part === 'registry') environment.services.kill('normalize-1', 'SIGKILL')
}

const latency = { type: 'latency', attributes: { latency: 2_000, jitter: 500 } } as const
const bandwidth = { type: 'bandwidth', attributes: { rate: 1 } } as const
const reset = { type: 'reset_peer', attributes: { timeout: 0 } } as const
const silence = { type: 'timeout', attributes: { timeout: 0 } } as const

/** Links that are slow, narrow, silent, cut or reset. */
export const links: readonly Fault[] = [
  disturbLinks({
    name: 'links-late',
    about: 'every answer of Kafka, both Redis, ClickHouse and the registry comes 2 s later',
    parts: LINKED,
    forMs: 10_000,
    disturb: toxic({ stream: 'downstream', ...latency }),
    meanwhile: restartOne,
  }),
  disturbLinks({
    name: 'links-narrow',
    about: '1 kB a second in both directions to each part of the stack',
    parts: LINKED,
    forMs: 10_000,
    disturb: toxic({ stream: 'downstream', ...bandwidth }, { stream: 'upstream', ...bandwidth }),
    meanwhile: restartOne,
  }),
  disturbLinks({
    name: 'links-silent',
    about: 'connections stay, and nothing passes them in either direction',
    parts: LINKED,
    forMs: 12_000,
    disturb: toxic({ stream: 'downstream', ...silence }, { stream: 'upstream', ...silence }),
    meanwhile: restartOne,
  }),
  disturbLinks({
    name: 'links-cut',
    about: 'connections to each part end, and new ones are refused for 5 s',
    parts: LINKED,
    forMs: 5_000,
    disturb: cut,
    meanwhile: restartOne,
  }),
  disturbLinks({
    name: 'links-reset',
    about: 'both Redis and the registry execute requests, and connections are reset ' +
      'instead of answers',
    parts: ['redis-state', 'redis-cache', 'registry'],
    forMs: 4_000,
    disturb: toxic({ stream: 'downstream', ...reset }),
    meanwhile: restartOne,
  }),
  disturbLinks({
    name: 'clickhouse-reset',
    about: 'ClickHouse stores what it is sent, and connections are reset instead of answers',
    parts: ['clickhouse', 'clickhouse', 'clickhouse'],
    forMs: 4_000,
    disturb: toxic({ stream: 'downstream', ...reset }),
  }),
]
