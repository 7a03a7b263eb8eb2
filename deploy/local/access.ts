import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { STAGES, type StageName } from '../../services/topology.ts'
import { selfSigned, type Certificate } from './certificate.ts'
import { secretsFile } from '../../services/runtime/platform/command-environment.ts'
import { loadSecrets } from './launcher/secrets.ts'
import type { Addresses } from './source.ts'

export type Account = { readonly username: string, readonly password: string }

/**
 * Who signs in where. At the brokers: they at each other as `broker`, each stage by its own name,
 * provisioning and commands as `admin`. At the cache Redis, `ingest` reaches limits alone.
 */
const USERS = {
  broker: 'broker',
  kafka: 'admin',
  registry: 'services',
  redisState: 'services',
  redisCache: 'services',
  redisLimits: 'ingest',
  clickhouse: 'services',
} as const

/** What `ingest` may do at the cache, of which it needs the limits of requests alone. */
export const LIMITS_RIGHTS = 'resetchannels ~limit:* -@all +@connection -@dangerous +info ' +
  '+cluster|slots +cluster|info +eval +evalsha +hmget +hset +pexpire +time'

type Accounts = Readonly<Record<keyof typeof USERS | StageName, Account>>

/** More environment for the services of each stage. */
export type EnvOfStages = Readonly<Partial<Record<string, Readonly<Record<string, string>>>>>

/** What the parts of a secure stack are reached with: TLS, and a password of its own for each. */
export type Access = {
  readonly accounts: Accounts
  readonly certificate: Certificate
  /** The same as files; `authority` is what clients trust, for NODE_EXTRA_CA_CERTS. */
  readonly files: Readonly<Record<'certificate' | 'key' | 'authority', string>>
  readonly folder: string
}

const CERTIFICATE_VALID_MS = 365 * 24 * 3_600_000

/**
 * Makes a data folder one of a secure stack: passwords are made and kept, readable by their owner
 * only. Does nothing to a folder that is one already.
 * @throws Error when the folder was used without passwords: its parts know no users.
 */
export function makeSecure (dataDir: string): void {
  if (!existsSync(accountsFile(accessFolder(dataDir)))) {
    if (existsSync(secretsFile(dataDir))) {
      throw new Error(`${dataDir} holds a stack without passwords: delete it, or give another ` +
        'folder with --data.')
    }
    mkdirSync(accessFolder(dataDir), { recursive: true, mode: 0o700 })
    writeFileSync(accountsFile(accessFolder(dataDir)), JSON.stringify(makeAccounts(), null, 2),
      { mode: 0o600 })
  }
  const { kafka } = readAccounts(accessFolder(dataDir))
  loadSecrets(dataDir, {
    KAFKA_TLS: 'true',
    KAFKA_SASL_MECHANISM: 'scram-sha-512',
    KAFKA_SASL_USERNAME: kafka.username,
    KAFKA_SASL_PASSWORD: kafka.password,
  })
}

/**
 * The access to the parts of a folder's stack, with a new certificate that this process trusts from
 * now on; undefined for a stack that lets everybody of this machine in.
 */
export function openAccess (dataDir: string): Access | undefined {
  const folder = accessFolder(dataDir)
  if (!existsSync(accountsFile(folder))) return undefined
  // Of several trusted certificates with one name, only one is ever found.
  const name = `embedded-stack-${randomBytes(4).toString('hex')}`
  const certificate = selfSigned(name, CERTIFICATE_VALID_MS)
  const files = certificateFiles(folder)
  writeFileSync(files.key, certificate.key, { mode: 0o600 })
  writeFileSync(files.certificate, certificate.cert, { mode: 0o600 })
  // Who already trusts others goes on to trust them.
  const others = process.env.NODE_EXTRA_CA_CERTS
  const trusted = others !== undefined && others !== '' && existsSync(others)
    ? readFileSync(others, 'utf8')
    : ''
  writeFileSync(files.authority, `${certificate.cert}${trusted}`, { mode: 0o600 })
  setDefaultCACertificates([...getCACertificates('default'), certificate.cert])
  return { accounts: readAccounts(folder), certificate, files, folder }
}

/**
 * What the services of each stage sign in with at the brokers, in place of the commands' user, and
 * `ingest` at the cache Redis.
 */
export function signInEnv ({ accounts }: Access, { REDIS_CACHE_URL }: Addresses): EnvOfStages {
  const { username, password } = accounts.redisLimits
  const limits = REDIS_CACHE_URL.replace(/\/\/[^@]*@/, `//${username}:${password}@`)
  return Object.fromEntries(STAGES.map(stage => [stage, {
    KAFKA_SASL_USERNAME: accounts[stage].username,
    KAFKA_SASL_PASSWORD: accounts[stage].password,
    ...stage === 'ingest' && { REDIS_CACHE_URL: limits },
  }]))
}

/** The access as a part's own process reads it. */
export function readAccess (folder: string): Access {
  const files = certificateFiles(folder)
  const certificate = {
    cert: readFileSync(files.certificate, 'utf8'), key: readFileSync(files.key, 'utf8'),
  }
  return { accounts: readAccounts(folder), certificate, files, folder }
}

const accessFolder = (dataDir: string): string => `${dataDir}/access`
const accountsFile = (folder: string): string => `${folder}/accounts.json`

const certificateFiles = (folder: string): Access['files'] => ({
  certificate: `${folder}/certificate.pem`,
  key: `${folder}/key.pem`,
  authority: `${folder}/authority.pem`,
})

function readAccounts (folder: string): Accounts {
  return JSON.parse(readFileSync(accountsFile(folder), 'utf8')) as Accounts
}

/** Passwords stand in addresses and settings, so they have nothing that needs to be escaped. */
function makeAccounts (): Accounts {
  const stages = STAGES.map(stage => [stage, stage] as const)
  return Object.fromEntries([...Object.entries(USERS), ...stages].map(([name, username]) =>
    [name, { username, password: randomBytes(24).toString('base64url') }])) as Accounts
}
