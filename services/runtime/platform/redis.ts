import { Cluster, Command, Redis, type RedisOptions } from 'ioredis'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkServerIdentity, type ConnectionOptions } from 'node:tls'
import { type Clock, retryForever, withTimeout } from './retry.ts'
import { certificateFiles, PasswordFile } from './config.ts'
import {
  InfrastructureError, isInfrastructure, isUntrusted, markFailed, storeText,
} from './errors.ts'
import type { Log } from './log.ts'
import { createCachedReading, type Metrics } from './metrics.ts'

/** A connection to one Redis, or to a cluster. */
export type RedisClient = Redis | Cluster

/**
 * A key that belongs to no tenant and that `ledger` restores. All of these share a slot: a script
 * may use several of them, and a server that fails loses writes of all of them or of none.
 */
export const globalKey = (name: string): string => `{global}:${name}`

/** Calls one Lua script by its digest. Replies are those of Redis, with Buffers if `binary`. */
type Script = (
  keys: readonly string[], args: readonly (string | number | Buffer)[],
) => Promise<unknown>

const RECONNECT_MAX_MS = 2_000
const TIMEOUTS = { commandTimeout: 5_000, connectTimeout: 5_000 }
/** Longer than a busy Redis stalls: nothing repeats what fails in a command of an operator. */
const ONE_TRY_TIMEOUT_MS = 30_000
const HOST_LIST = /^redis(s?)-(cluster|sentinel):\/\/(?:(.*)@)?([^@/]+)(?:\/([^@/]+))?$/
/** How often a connection to a cluster reads which server has which slots. */
const SLOTS_REFRESH_MS = 10_000
const CLOCK_REFRESH_MS = 10_000
const CLOCK_SAMPLES = 3

type Credentials = {
  /** In place of a password in the URL. */
  readonly passwordFile?: string | undefined
  /** The certificate of this client, for TLS, and its key. */
  readonly certFile?: string | undefined
  readonly keyFile?: string | undefined
}

type Options = Partial<typeof TIMEOUTS> & Credentials

/** The settings of a connection to one of the two. */
export type RedisSettings<Name extends 'STATE' | 'CACHE'> =
  Readonly<Record<`REDIS_${Name}_URL`, string>> & Readonly<Partial<Record<
    `REDIS_${Name}_PASSWORD_FILE` | 'REDIS_TLS_CERT_FILE' | 'REDIS_TLS_KEY_FILE',
    string | undefined>>>

/**
 * A connection that reconnects automatically: to one Redis (`redis://`, over TLS `rediss://`), to
 * the current master of a Sentinel group
 * (`redis-sentinel://user:password@host:port,host:port/<group>`, `rediss-sentinel://`), or to a
 * cluster (`redis-cluster://`, `rediss-cluster://`, then `user:password@` and some of its nodes).
 * Sentinels and servers have the same user and password. A command fails after one reconnection or
 * five seconds, so the caller decides whether to retry. In a cluster it may only use keys of one
 * slot, is redirected and retried while slots move, and fails at once while no node responds; the
 * promise resolves once the cluster is connected, or after five seconds. Files are read again for
 * each connection.
 * @throws TypeError for the URL of sentinels without a group.
 */
export async function connectRedis (
  url: string, { passwordFile, certFile, keyFile, ...options }: Options = {}
): Promise<RedisClient> {
  const timeouts = { ...TIMEOUTS, ...options }
  const address = parseHosts(url, { passwordFile, certFile, keyFile })
  if (address.kind === 'cluster') return await connectCluster(address, timeouts)
  const settings = {
    maxRetriesPerRequest: 1,
    ...timeouts,
    retryStrategy: reconnectDelayMs,
    // A former master that returns as a replica refuses writes until the client reconnects.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  }
  const redis = address.kind === 'one'
    ? new Redis(address.url, { ...settings, ...address.access })
    : new Redis({ ...sentinelOptions(address), ...settings })
  // Each failed command rejects its own promise; without a listener ioredis prints the error too.
  redis.on('error', () => {})
  return redis
}

function sentinelOptions ({ nodes, group, access }: HostList): RedisOptions {
  if (group === undefined) {
    throw new TypeError('redis-sentinel:// without a group is not a URL of one Redis: use ' +
      'redis-sentinel://host:port,host:port/<group>')
  }
  const { username, password, tls } = access
  return {
    ...access,
    name: group,
    sentinels: nodes,
    ...username !== undefined && { sentinelUsername: username },
    ...password !== undefined && { sentinelPassword: password },
    ...tls !== undefined && { enableTLSForSentinelMode: true, sentinelTLS: tls },
    sentinelRetryStrategy: reconnectDelayMs,
    // Disconnects from a former master that still responds.
    failoverDetector: true,
  }
}

/**
 * Logs once what an operator must fix when Redis rejects the user or its certificate is not
 * trusted. The connection keeps retrying. `setting` is the name of the setting with the URL.
 */
export function logAccessErrors (
  redis: RedisClient, setting: string, log: (refusal: string) => void
): void {
  const logged = new Set<string>()
  redis.on('error', (error: unknown) => {
    const refusal = describeAccessError(error, setting)
    if (refusal === undefined || logged.has(refusal)) return
    logged.add(refusal)
    log(refusal)
  })
}

function describeAccessError (error: unknown, setting: string): string | undefined {
  if (!(error instanceof Error)) return undefined
  if (isUntrusted(error)) {
    return 'The certificate of Redis is not trusted: set NODE_EXTRA_CA_CERTS to the file of its ' +
      `CA, and use a host name of the certificate in ${setting}`
  }
  if (/^(?:NOAUTH|WRONGPASS) /.test(error.message)) {
    return `Redis authentication failed: check user and password in ${setting}`
  }
  if (error.message.startsWith('NOPERM ')) {
    return `Redis permission denied: grant the missing permission to the user in ${setting}`
  }
  // The last node of a cluster has the reason why none is available.
  return 'lastNodeError' in error ? describeAccessError(error.lastNodeError, setting) : undefined
}

const reconnectDelayMs = (attempt: number) =>
  Math.min(50 * 2 ** Math.min(attempt, 10), RECONNECT_MAX_MS)

type Node = { readonly host: string, readonly port: number }

/** One Redis: its URL without an account, which ioredis would prefer to that of the files. */
type OneHost = {
  readonly kind: 'one', readonly url: string, readonly access: Access
}
type Access = Pick<RedisOptions, 'username' | 'password' | 'tls'>

/** A URL with several hosts: nodes of a cluster, or sentinels. */
type HostList = {
  readonly kind: 'cluster' | 'sentinel'
  readonly nodes: Node[]
  /** The Sentinel name of the master. */
  readonly group: string | undefined
  readonly access: Access
}

function parseHosts (url: string, files: Credentials): OneHost | HostList {
  const [hosts, secure, kind, credentials = '', nodes = '', group] = HOST_LIST.exec(url) ?? []
  if (hosts === undefined) {
    const host = new URL(url)
    const access = toAccess(host, host.protocol === 'rediss:', files)
    host.username = ''
    host.password = ''
    return { kind: 'one', url: host.href, access }
  }
  return {
    kind: kind as HostList['kind'],
    nodes: nodes.split(',').map(node => {
      const { hostname, port } = new URL(`redis://${node}`)
      const usualPort = kind === 'cluster' ? 6_379 : 26_379
      return {
        host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? usualPort : Number(port),
      }
    }),
    group,
    access: toAccess(new URL(`redis://${credentials}@several`), secure === 's', files),
  }
}

function toAccess (
  { username, password }: URL, isSecure: boolean,
  { passwordFile, certFile, keyFile = '' }: Credentials
): Access {
  return {
    ...username !== '' && { username: decodeURIComponent(username) },
    ...password !== '' && { password: decodeURIComponent(password) },
    // ioredis copies its options, also to the nodes of a cluster, and makes a text of each argument
    // when it sends it: so every connection signs in with what is in the file by then.
    ...passwordFile !== undefined && {
      password: new PasswordFile(passwordFile) as unknown as string,
    },
    // It copies these for each connection.
    ...isSecure && { tls: certFile === undefined ? {} : certificateFiles(certFile, keyFile) },
  }
}

/** The credentials in the settings of a Redis. */
export function redisCredentials<Name extends 'STATE' | 'CACHE'> (
  name: Name, settings: RedisSettings<Name>
): Credentials {
  const { REDIS_TLS_CERT_FILE: certFile, REDIS_TLS_KEY_FILE: keyFile } = settings
  return { passwordFile: settings[`REDIS_${name}_PASSWORD_FILE`], certFile, keyFile }
}

/**
 * The connection of a setting for a command, whose user gets the errors: they name the setting and
 * its address.
 */
export async function connectCommandRedis<Name extends 'STATE' | 'CACHE'> (
  name: Name, settings: RedisSettings<Name>
): Promise<RedisClient> {
  const url = settings[`REDIS_${name}_URL`]
  const redis = await connectRedis(url,
    { commandTimeout: ONE_TRY_TIMEOUT_MS, ...redisCredentials(name, settings) })
  const store = storeText(`REDIS_${name}_URL`, url)
  const clients: readonly Pick<Cluster, 'sendCommand'>[] =
    redis instanceof Cluster ? [redis, ...redis.nodes()] : [redis]
  for (const client of clients) {
    const send = client.sendCommand.bind(client)
    client.sendCommand = (...args: Parameters<Cluster['sendCommand']>) => {
      args[0].promise.catch((error: unknown) => markFailed(error, store))
      return send(...args)
    }
  }
  return redis
}

/**
 * A managed cluster has one host name, whose certificate its nodes have too while they announce
 * their IP addresses: such a node may prove to be a host of the URL.
 */
function createIdentityCheck (nodes: readonly Node[]): ConnectionOptions['checkServerIdentity'] {
  const names = nodes.map(({ host }) => host).filter(host => isIP(host) === 0)
  return (host, certificate) => {
    const fault = checkServerIdentity(host, certificate)
    const isNamed = isIP(host) !== 0 &&
      names.some(name => checkServerIdentity(name, certificate) === undefined)
    return isNamed ? undefined : fault
  }
}

async function connectCluster (
  { nodes, access }: HostList, timeouts: typeof TIMEOUTS
): Promise<Cluster> {
  const { tls } = access
  // Assigned, because a copy would read the files of the certificate now.
  if (tls !== undefined) Object.assign(tls, { checkServerIdentity: createIdentityCheck(nodes) })
  const cluster = new FailFastCluster(nodes, {
    clusterRetryStrategy: reconnectDelayMs,
    enableOfflineQueue: false,
    lazyConnect: true,
    slotsRefreshInterval: SLOTS_REFRESH_MS,
    // A host of the URL keeps its name, for its certificate, and is looked up again each time.
    dnsLookup: (host, callback) => callback(null, host),
    redisOptions: { ...timeouts, ...access },
  })
  cluster.on('error', () => {})
  const ready = new Promise<void>(resolve => { cluster.once('ready', resolve) })
  // An unavailable cluster is retried forever; `connect` never settles while its nodes disagree.
  const late = sleep(timeouts.connectTimeout, undefined, { ref: false })
  await Promise.race([ready, late, cluster.connect().catch(() => {})])
  return cluster
}

/** Concatenates Lua files in this order, as Redis has no modules. */
export function joinLua (...files: readonly URL[]): string {
  return files.map(file => readFileSync(file, 'utf8')).join('\n')
}

/**
 * A Lua script, called by EVALSHA, and by EVAL if Redis does not know it. Checks the number of
 * keys, because only a cluster would report a missing one; `any` is for scripts with a list of
 * keys, which must all have the same hash tag.
 */
export function script (
  redis: RedisClient,
  { name, source, numberOfKeys, binary = false }:
  { name: string, source: string, numberOfKeys: number | 'any', binary?: boolean }
): Script {
  const digest = createHash('sha1').update(source).digest('hex')
  return async (keys, args) => {
    if (numberOfKeys !== 'any' && keys.length !== numberOfKeys) {
      throw new TypeError(`script ${name} got ${keys.length} keys, expected ${numberOfKeys}`)
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

/**
 * The arguments of a script by name, as one JSON argument for `cjson.decode`. Numbers become text,
 * because cjson writes and reads no more than 14 digits of a number; undefined ones are left out.
 */
export const namedArguments = (values: object): string =>
  JSON.stringify(values, (_name, value) => typeof value === 'number' ? String(value) : value)

/** Lua: the run id of the server, which is another one after each start. */
export const RUN_ID_LUA = "string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')"

/** Redis TIME, the only clock of money and limits, without a round trip per call. */
export type RedisClock = Clock & { readonly stop: () => void }

/**
 * Measures the offset from Redis TIME at the start (until it succeeds) and then every 10 s. In
 * between it uses the monotonic clock: a jump of the machine's clock must neither fail jobs nor
 * delay anything.
 */
export async function redisClock (
  redis: RedisClient, onRetry: (error: unknown) => void = () => {}
): Promise<RedisClock> {
  let offsetMs = await retryForever(
    () => measuredOffsetMs(redis), { onRetry, when: isInfrastructure })
  const refresh = async () => {
    try {
      offsetMs = await measuredOffsetMs(redis)
    } catch {
      // Keeps the last offset: while Redis is unavailable, clocks drift by far less than a second.
    }
  }
  const timer = setInterval(refresh, CLOCK_REFRESH_MS).unref()
  return { now: () => Math.round(performance.now() + offsetMs), stop: () => clearInterval(timer) }
}

/** Takes the sample with the shortest round trip: its error is at most half of that. */
async function measuredOffsetMs (redis: RedisClient): Promise<number> {
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

/** Replaces `before` by `after` and keeps its TTL; false if the key has another value. */
type CompareAndSet = (
  key: string, before: Buffer | string, after: Buffer | string,
) => Promise<boolean>

const SOURCE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1`

/** Compare-and-set on Redis strings that several processes change. */
export function createCompareAndSet (redis: RedisClient): CompareAndSet {
  const run = script(redis, { name: 'swap', source: SOURCE, numberOfKeys: 1 })
  return async (key, before, after) => await run([key], [before, after]) === 1
}

const RETRY_AFTER_MS = 1_000
/** Errors of a server that is gone or not part of the cluster, unlike those of a single slot. */
const SERVER_FAILURE = /Connection is closed|timed out|CLUSTERDOWN|LOADING|MOVED/

type Failure = { readonly retryAtMs: number, isProbed: boolean }

/**
 * A connection to a cluster on which a server that has just failed delays nobody: a command to it
 * waits for reconnections once, and for the next second the others fail at once. Then one command
 * tries again. Commands to other servers are not affected.
 */
class FailFastCluster extends Cluster {
  readonly #failures = new Map<string, Failure>()

  override sendCommand (...args: Parameters<Cluster['sendCommand']>): unknown {
    const [command] = args
    const server = this.#serverOf(command)
    if (server === undefined) return super.sendCommand(...args)
    const failure = this.#failures.get(server)
    if (failure !== undefined) {
      if (failure.isProbed || performance.now() < failure.retryAtMs) {
        command.reject(new InfrastructureError(`the Redis server ${server} does not respond`))
        return command.promise
      }
      failure.isProbed = true
    }
    const answered = () => { this.#failures.delete(server) }
    command.promise.then(answered, (error: unknown) => {
      if (!SERVER_FAILURE.test(String(error))) return answered()
      this.#failures.set(server, { retryAtMs: performance.now() + RETRY_AFTER_MS, isProbed: false })
    })
    return super.sendCommand(...args)
  }

  /** The server of the keys of a command; undefined for a command without keys. */
  #serverOf (command: Command): string | undefined {
    const slot = command.getSlot()
    return slot === null ? undefined : this.slots[slot]?.[0]
  }
}

/** A server that has keys: the only one, or a master of a cluster. */
export type RedisServer = {
  /** `host:port`; empty for a Redis that is no cluster. */
  readonly address: string
  /** The id of this start of the server. */
  readonly run: string
  /** A key of this name in a slot of the server. */
  readonly keyOf: (name: string) => string
  /** Whether the server has the slot of a key. */
  readonly has: (key: string) => boolean
}

/** A server that does not respond must not delay what concerns the others. */
const INFO_TIMEOUT_MS = 500
export const SLOTS = 16_384

/**
 * Connections to all servers that have keys: the Redis itself, or each master of a cluster as it is
 * known now.
 * @throws InfrastructureError when no node of the cluster says which ones there are.
 */
export async function listMasters (redis: RedisClient): Promise<readonly Redis[]> {
  if (!(redis instanceof Cluster)) return [redis]
  // A connection that was lost is missing until the slots are read again.
  await new Promise<void>((resolve, reject) => {
    redis.refreshSlotsCache(cause => {
      if (cause == null) return resolve()
      reject(new InfrastructureError('no node of the Redis cluster names its masters', { cause }))
    })
  })
  return redis.nodes('master')
}

/** The address of a server as the cluster names it. */
export const formatAddress = ({ options: { host, port } }: Redis): string => `${host}:${port}`

/** The address of the server of a key, as far as this process knows; empty without a cluster. */
export function findHome (redis: RedisClient, key: string): string {
  return redis instanceof Cluster ? redis.slots[hashSlot(key)]?.[0] ?? '' : ''
}

/** The slot of a key in a cluster. */
function hashSlot (key: string): number {
  return new Command('exists', [key]).getSlot() ?? 0
}

/** The servers that respond; of a cluster those that have a slot. */
export async function listServers (redis: RedisClient): Promise<readonly RedisServer[]> {
  if (!(redis instanceof Cluster)) {
    return [{ address: '', run: await readRun(redis), keyOf: globalKey, has: () => true }]
  }
  const nodes = redis.nodes('master').map(node => {
    const address = formatAddress(node)
    return { node, address, tag: findTag(redis, address) }
  })
  const cells = await Promise.all(nodes.map(async ({ node, address, tag }) => {
    const run = await quietly(readRun(node))
    return run === undefined || tag === undefined
      ? []
      : [{
          address,
          run,
          keyOf: (name: string) => `{${tag}}:${name}`,
          has: (key: string) => findHome(redis, key) === address,
        }]
  }))
  return cells.flat()
}

async function readRun (redis: Redis): Promise<string> {
  return await script(redis, { name: 'run', source: `return ${RUN_ID_LUA}`, numberOfKeys: 0 })(
    [], []) as string
}

/** The answer; undefined after a failure or too long a wait. */
async function quietly<T> (answer: Promise<T>): Promise<T | undefined> {
  let result: T | undefined
  const settled = answer.then(value => { result = value }, () => {})
  await withTimeout(settled, INFO_TIMEOUT_MS)
  return result
}

/** The slots of the hash tags 0, 1, 2 and so on, as far as they were needed. */
const slotsOfTags: number[] = []

/** The first number that is a hash tag of a slot of the server. */
function findTag ({ slots }: Cluster, address: string): string | undefined {
  if (!slots.some(servers => servers?.[0] === address)) return undefined
  for (let tag = 0; ; tag++) {
    const slot = slotsOfTags[tag] ??= hashSlot(String(tag))
    if (slots[slot]?.[0] === address) return String(tag)
  }
}

/**
 * What keeps the state Redis from losing acknowledged writes: its append-only file, replicas, or a
 * managed service with a log of its own, which no client can see.
 */
export type Durability = 'aof' | 'replicas' | 'managed'

type RedisMeters = {
  readonly store: 'state' | 'cache'
  /** Of the state; `aof` by default. */
  readonly durability?: Durability
  readonly redis: RedisClient
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

type ServerInfo = {
  /** Empty for a Redis that is no cluster. */
  readonly address: string
  readonly usedBytes: number
  readonly limitBytes: number
  /** 0 without an append-only file. */
  readonly aofBytes: number
  readonly hasAof: boolean
  readonly hasReplica: boolean
  readonly hasFailed: boolean
}

/**
 * Reports memory and persistence of a Redis server, or of each master of a cluster, from INFO
 * whenever metrics are read. State without what its durability promises counts as not persisted.
 */
export function watchRedis (
  { store, durability = 'aof', redis, metrics, log }: RedisMeters
): void {
  const isKept = ({ hasAof, hasReplica }: ServerInfo) =>
    durability === 'managed' || (durability === 'replicas' ? hasReplica : hasAof)
  const read = createCachedReading(() => readInfo(redis), {
    name: `INFO of the ${store} Redis`, log,
  })
  type Name = 'redis_memory_bytes' | 'redis_memory_limit_bytes' | 'redis_aof_bytes' |
    'redis_persistence_failed'
  const watch = (name: Name, of: (server: ServerInfo) => number) =>
    metrics.watchAll(name, async () => (await read()).map(server =>
      ({ labels: { store, server: server.address }, value: of(server) })))
  watch('redis_memory_bytes', ({ usedBytes }) => usedBytes)
  watch('redis_memory_limit_bytes', ({ limitBytes }) => limitBytes)
  watch('redis_aof_bytes', ({ aofBytes }) => aofBytes)
  watch('redis_persistence_failed', server =>
    Number(server.hasFailed || (store === 'state' && !isKept(server))))
}

const readInfo = (redis: RedisClient): Promise<readonly ServerInfo[]> =>
  Promise.all(redis instanceof Cluster
    ? redis.nodes('master').map(async node =>
      parseInfo(formatAddress(node), await node.info()))
    : [redis.info().then(info => parseInfo('', info))])

const LAST_STATUSES = [
  'aof_last_write_status', 'aof_last_bgrewrite_status', 'rdb_last_bgsave_status',
]

function parseInfo (address: string, info: string): ServerInfo {
  const fields = new Map(info.split('\r\n').map(line => line.split(':') as [string, string]))
  const readNumber = (name: string) => Number(fields.get(name) ?? 0)
  const maxBytes = readNumber('maxmemory')
  // A server that evicts stays at its maximum; only its machine can run out of memory.
  const refusesWrites = maxBytes > 0 && fields.get('maxmemory_policy') === 'noeviction'
  return {
    address,
    usedBytes: readNumber('used_memory'),
    limitBytes: refusesWrites ? maxBytes : readNumber('total_system_memory'),
    aofBytes: readNumber('aof_current_size'),
    hasAof: fields.get('aof_enabled') === '1',
    hasReplica: readNumber('connected_slaves') > 0,
    hasFailed: LAST_STATUSES.some(name => fields.get(name) === 'err'),
  }
}
