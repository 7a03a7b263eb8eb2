import { createHash } from 'node:crypto'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from './clock.ts'
import { isInfrastructure, isUntrusted } from './errors.ts'
import { retryForever } from './retry.ts'

/** Calls one Lua script by its digest; replies are as Redis gives them, Buffers when `binary`. */
export type Script = (
  keys: readonly string[], args: readonly (string | number | Buffer)[],
) => Promise<unknown>

const RECONNECT_MAX_MS = 2_000
const TIMEOUTS = { commandTimeout: 5_000, connectTimeout: 5_000 }
const SEVERAL = /^redis(s?)-(cluster|sentinel):\/\/(?:(.*)@)?([^@/]+)(?:\/([^@/]+))?$/
const CLOCK_REFRESH_MS = 10_000
const CLOCK_SAMPLES = 3

/**
 * A connection to one Redis that reconnects by itself: `redis://` or, over TLS, `rediss://`; or to
 * the present master of a group that Sentinel watches:
 * `redis-sentinel://user:password@host:port,host:port/<name of the group>`, `rediss-sentinel://`.
 * Sentinels and servers have the same user and password. A command fails after one reconnection or
 * five seconds instead of waiting for ever: the caller decides whether to retry or to refuse.
 * @throws TypeError for an address of a cluster, or of sentinels without the name of a group.
 */
export function connectRedis (url: string, options: RedisOptions = {}): Redis {
  const settings = {
    maxRetriesPerRequest: 1,
    ...TIMEOUTS,
    retryStrategy: pauseMs,
    // A former master that comes back as a replica refuses writes until the connection moves.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
    ...options,
  }
  const address = severalOf(url)
  const redis = address === undefined
    ? new Redis(url, settings)
    : new Redis({ ...groupOf(address), ...settings })
  // Every failed command rejects at its caller; without a listener the same error would be printed.
  redis.on('error', () => {})
  return redis
}

/** How sentinels are asked for the master of a group. */
function groupOf ({ kind, nodes, group, access }: Several): RedisOptions {
  if (kind !== 'sentinel' || group === undefined) {
    throw new TypeError('an address of one Redis is redis://host:port or ' +
      'redis-sentinel://host:port,host:port/<name of the group>, ' +
      `not redis-${kind}:// without a group`)
  }
  const { username, password, tls } = access
  return {
    ...access,
    name: group,
    sentinels: nodes,
    ...username !== undefined && { sentinelUsername: username },
    ...password !== undefined && { sentinelPassword: password },
    ...tls !== undefined && { enableTLSForSentinelMode: true, sentinelTLS: tls },
    sentinelRetryStrategy: pauseMs,
    // Leaves a former master although it still answers.
    failoverDetector: true,
  }
}

/**
 * Tells once what an operator has to set right when Redis is there but refuses this user, or has a
 * certificate that is not trusted; the connection goes on trying meanwhile. `setting` is the key of
 * the configuration that has the address.
 */
export function logRefusals (
  redis: Redis | Cluster, setting: string, tell: (refusal: string) => void
): void {
  const told = new Set<string>()
  redis.on('error', (error: unknown) => {
    const refusal = refusalOf(error, setting)
    if (refusal === undefined || told.has(refusal)) return
    told.add(refusal)
    tell(refusal)
  })
}

function refusalOf (error: unknown, setting: string): string | undefined {
  if (!(error instanceof Error)) return undefined
  if (isUntrusted(error)) {
    return 'The certificate of Redis is not trusted: give the file of its authority as ' +
      `NODE_EXTRA_CA_CERTS, and a name in the certificate in ${setting}`
  }
  if (/^(?:NOAUTH|WRONGPASS) /.test(error.message)) {
    return `Redis refuses to sign this user in: check user and password in ${setting}`
  }
  if (error.message.startsWith('NOPERM ')) {
    return `Redis denies this user something: give the user of ${setting} the right to it`
  }
  // Of a cluster, the last of its nodes says why none could be reached.
  return 'lastNodeError' in error ? refusalOf(error.lastNodeError, setting) : undefined
}

const pauseMs = (attempt: number) => Math.min(50 * 2 ** Math.min(attempt, 10), RECONNECT_MAX_MS)

type Node = { readonly host: string, readonly port: number }

/** An address that names several servers: nodes of a cluster, or sentinels. */
type Several = {
  readonly kind: 'cluster' | 'sentinel'
  readonly nodes: Node[]
  /** The name by which sentinels know a master and its replicas. */
  readonly group: string | undefined
  readonly access: Pick<RedisOptions, 'username' | 'password' | 'tls'>
}

function severalOf (url: string): Several | undefined {
  const [found, secure, kind, credentials = '', nodes = '', group] = SEVERAL.exec(url) ?? []
  if (found === undefined) return undefined
  const { username, password } = new URL(`redis://${credentials}@several`)
  return {
    kind: kind as Several['kind'],
    nodes: nodes.split(',').map(node => nodeOf(node, kind === 'cluster' ? 6_379 : 26_379)),
    group,
    access: {
      ...username !== '' && { username: decodeURIComponent(username) },
      ...password !== '' && { password: decodeURIComponent(password) },
      ...secure === 's' && { tls: {} },
    },
  }
}

/**
 * A connection as `connectRedis` makes it, or to a cluster: `redis-cluster://` or, over TLS,
 * `rediss-cluster://`, then `user:password@` as for one, and some of its nodes, joined by commas.
 * Only for what works on keys of one slot at a time. While no node answers, commands fail at once.
 */
export async function connectRedisOrCluster (url: string): Promise<Redis | Cluster> {
  const address = severalOf(url)
  return address?.kind === 'cluster' ? await connectCluster(address) : connectRedis(url)
}

async function connectCluster ({ nodes, access }: Several): Promise<Cluster> {
  const cluster = new Cluster(nodes, {
    clusterRetryStrategy: pauseMs,
    enableOfflineQueue: false,
    lazyConnect: true,
    redisOptions: { ...TIMEOUTS, ...access },
  })
  cluster.on('error', () => {})
  const ready = new Promise<void>(resolve => { cluster.once('ready', resolve) })
  // One that is away now is tried again without end; of one whose nodes do not agree yet, `connect`
  // never says anything.
  const late = sleep(TIMEOUTS.connectTimeout, undefined, { ref: false })
  await Promise.race([ready, late, cluster.connect().catch(() => {})])
  return cluster
}

function nodeOf (address: string, usualPort: number): Node {
  const { hostname, port } = new URL(`redis://${address}`)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? usualPort : Number(port) }
}

/**
 * A Lua script, sent as its digest and only after a restart of Redis as its text. The number of
 * keys is checked, as a forgotten key would only be missed by a cluster; `any` is for scripts whose
 * keys are a list, which must all have the same hash tag.
 */
export function script (
  redis: Pick<Redis, 'call' | 'callBuffer'>,
  { name, source, numberOfKeys, binary = false }:
  { name: string, source: string, numberOfKeys: number | 'any', binary?: boolean }
): Script {
  const digest = createHash('sha1').update(source).digest('hex')
  return async (keys, args) => {
    if (numberOfKeys !== 'any' && keys.length !== numberOfKeys) {
      throw new TypeError(`script ${name} takes ${numberOfKeys} keys, not ${keys.length}`)
    }
    const rest = [keys.length, ...keys, ...args] as const
    const call = (command: 'EVAL' | 'EVALSHA', text: string) =>
      binary ? redis.callBuffer(command, text, ...rest) : redis.call(command, text, ...rest)
    try {
      return await call('EVALSHA', digest)
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return await call('EVAL', source)
    }
  }
}

/** Redis TIME, the only clock of money and limits, without asking for it every time. */
export type RedisClock = Clock & { readonly stop: () => void }

/**
 * Measures how far this process's time is from Redis TIME, at once (until it succeeds) and then
 * every 10 s. In between the time since the start of the process is what counts: the machine's own
 * clock may be set, and a jump of it must neither fail jobs nor put anything off.
 */
export async function redisClock (
  redis: Redis, onRetry: (error: unknown) => void = () => {}
): Promise<RedisClock> {
  let offsetMs = await retryForever(
    () => measuredOffsetMs(redis), { onRetry, when: isInfrastructure })
  const refresh = async () => {
    try {
      offsetMs = await measuredOffsetMs(redis)
    } catch {
      // The last offset stays in use: clocks drift by far less than a second while Redis is away.
    }
  }
  const timer = setInterval(refresh, CLOCK_REFRESH_MS).unref()
  return { now: () => Math.round(performance.now() + offsetMs), stop: () => clearInterval(timer) }
}

/** The sample with the shortest way to Redis and back is off by at most half of that way. */
async function measuredOffsetMs (redis: Redis): Promise<number> {
  let best = { tripMs: Infinity, offsetMs: 0 }
  for (let sample = 0; sample < CLOCK_SAMPLES; sample++) {
    const sentMs = performance.now()
    const [seconds, micros] = await redis.time()
    const receivedMs = performance.now()
    const redisMs = Number(seconds) * 1_000 + Number(micros) / 1_000
    const tripMs = receivedMs - sentMs
    if (tripMs < best.tripMs) best = { tripMs, offsetMs: redisMs - (sentMs + tripMs / 2) }
  }
  return best.offsetMs
}
