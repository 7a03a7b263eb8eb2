import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { Say } from '../../../deploy/local/parts.ts'
import { freePort } from '../../../deploy/local/ports.ts'
import { installToxiproxy } from '../deploy/tools.ts'
import { createPart } from './processes.ts'

/** `downstream` is what the client reads, `upstream` what it writes. */
type Stream = 'upstream' | 'downstream'

/** What a link can be made to do to the bytes that pass it, by toxiproxy's own names. */
export type Toxic = { readonly stream: Stream } & (
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

export type ToxicLink = {
  /** Where clients connect. */
  readonly port: number
  /** Adds a toxic to every connection there is and will be; resolves to what removes it. */
  readonly add: (toxic: Toxic) => Promise<() => Promise<void>>
  /** Drops every connection and refuses new ones, until `join`. */
  readonly cut: () => Promise<void>
  readonly join: () => Promise<void>
}

export type Toxiproxy = {
  /** A link to `host:port`; at a port of its own, or at the one that is given. */
  readonly link: (name: string, upstream: string, port?: number) => Promise<ToxicLink>
  readonly stop: () => Promise<void>
}

/** Starts toxiproxy, whose toxics follow the seed. */
export async function startToxiproxy (
  { seed, say }: { readonly seed: number, readonly say: Say }
): Promise<Toxiproxy> {
  const command = await installToxiproxy(say)
  const dataDir = mkdtempSync(`${tmpdir()}/verification-jobs-toxiproxy-`)
  const apiPort = await freePort()
  const api = createApi(`http://127.0.0.1:${apiPort}`)
  const ready = () => api('GET', '/version').then(() => true, () => false)
  const args = ['-host', '127.0.0.1', '-port', String(apiPort), '-seed', String(seed)]
  const part = createPart({ name: 'toxiproxy', command, args, dataDir, ready, graceMs: 0 })
  await part.up()
  const stop = async () => {
    await part.down()
    rmSync(dataDir, { recursive: true, force: true })
  }
  return {
    stop,
    link: async (name, upstream, givenPort) => {
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
