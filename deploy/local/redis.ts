import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { connect as connectSecurely } from 'node:tls'
import { LIMITS_RIGHTS, type Access, type Account } from './access.ts'
import { installRedis, type PartOptions } from './parts.ts'
import type { ProcessSpec } from './process.ts'

/**
 * State is money: every write is on disk before its answer, and nothing is ever evicted. A hash of
 * a million idempotency keys expires in the background.
 */
const stateSettings = [
  '--save', '', '--appendonly', 'yes', '--appendfsync', 'always',
  '--lazyfree-lazy-expire', 'yes', '--maxmemory-policy', 'noeviction',
] as const

/**
 * The cache may forget: bounded, the least used leaves first. What it knows was paid for, so it is
 * written down every hour and at the end.
 */
const cacheSettings = [
  '--save', '3600 1', '--appendonly', 'no', '--maxmemory', '512mb',
  '--maxmemory-policy', 'allkeys-lru',
] as const

const settingsByKind = { state: stateSettings, cache: cacheSettings } as const

/** One of the two Redis servers. */
export async function redisPart (
  options: PartOptions & { readonly role: 'state' | 'cache' }
): Promise<{ spec: ProcessSpec, url: string }> {
  await installRedis(options.say)
  const { role, access, dataDir } = options
  const name = `redis-${role}`
  const port = await options.ports.port(name)
  const folder = `${dataDir}/${name}`
  mkdirSync(folder, { recursive: true })
  const account = access?.accounts[role === 'state' ? 'redisState' : 'redisCache']
  const isSecure = access !== undefined && account !== undefined
  const listening = isSecure
    ? [settingsFile({ folder, port, access, role })]
    : ['--port', String(port)]
  const user = isSecure ? `${account.username}:${account.password}@` : ''
  return {
    url: `${isSecure ? 'rediss' : 'redis'}://${user}127.0.0.1:${port}`,
    spec: {
      name,
      command: 'redis-server',
      args: [...listening, '--bind', '127.0.0.1', '--dir', folder, ...settingsByKind[role]],
      dataDir,
      ready: () => answersPing(port, account),
      graceMs: 10_000,
    },
  }
}

/** A file, as arguments could be read by everybody of the machine. No port is open without TLS. */
function settingsFile (
  { folder, port, access, role }:
  { folder: string, port: number, access: Access, role: 'state' | 'cache' }
): string {
  const { redisState, redisCache, redisLimits } = access.accounts
  const file = `${folder}/redis.conf`
  const settings = [
    'port 0',
    `tls-port ${port}`,
    `tls-cert-file "${access.files.certificate}"`,
    `tls-key-file "${access.files.key}"`,
    `tls-ca-cert-file "${access.files.certificate}"`,
    'tls-auth-clients no',
    // No client signs in as this user, but Redis replays transactions of its file with its rights.
    `user default off ${ALL_RIGHTS}`,
    ...role === 'state'
      ? [formatUser(redisState, ALL_RIGHTS)]
      : [formatUser(redisCache, ALL_RIGHTS), formatUser(redisLimits, LIMITS_RIGHTS)],
  ]
  writeFileSync(file, settings.map(line => `${line}\n`).join(''), { mode: 0o600 })
  return file
}

const ALL_RIGHTS = '~* &* +@all'

const formatUser = ({ username, password }: Account, rights: string): string =>
  `user ${username} on >${password} ${rights}`

/** A server that still loads its file accepts connections but answers PING with an error. */
function answersPing (port: number, account: Account | undefined): Promise<boolean> {
  const host = '127.0.0.1'
  const signIn = account === undefined ? '' : `AUTH ${account.username} ${account.password}\r\n`
  const wanted = account === undefined ? '+PONG' : '+OK\r\n+PONG'
  return new Promise((resolve) => {
    const ask = () => { socket.write(`${signIn}PING\r\n`) }
    const socket = account === undefined
      ? connect(port, host, ask)
      : connectSecurely({ port, host }, ask)
    let answer = ''
    socket.setTimeout(1_000, () => socket.destroy())
    socket.on('data', (data) => {
      answer += data.toString()
      if (answer.length < wanted.length && wanted.startsWith(answer)) return
      resolve(answer.startsWith(wanted))
      socket.destroy()
    })
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
  })
}
