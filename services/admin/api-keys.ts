import { NewKeyError, DEFAULT_SCOPES, type Scope, SCOPES } from '../accounts/api-keys.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import {
  type AdminCommand, type Context, HOUR_MS, organizationToChange, organizationToRead, parseFromZero,
  parseMode, runChange, runTask, type Task, toIsoTime,
} from './command-line.ts'

const SHOWN_ONCE = 'The secret is not shown again.'

/** Adds `key` and its commands. */
export function addApiKeys (program: AdminCommand, context: Context): void {
  const key = program.command('key').description('API keys')
  const add = (name: string, description: string) =>
    key.command(name).description(description).requiredOption('--org <id>', 'organization')
  add('create', 'create a key; its secret is shown once')
    .records('key.created')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--name <name>', 'what it is for')
    .option('--scopes <list>', `of ${SCOPES.join(', ')}; jobs:read includes results:read and ` +
      'usage:read, jobs:write includes webhooks:write', DEFAULT_SCOPES.join(','))
    .option('--networks <list>', 'IP addresses and networks that may use it, such as ' +
      '192.0.2.0/24,2001:db8::/32; a network begins with its first address; all by default')
    .option('--expires <time>', 'expiry as an ISO 8601 time')
    .example('--org org_1 --name "nightly import" --expires 2030-01-31T12:00:00Z')
    .action(runChange(context, createKey))
  add('list', 'list keys without their secrets')
    .reads()
    .example('--org org_1')
    .action(runTask(context, listApiKeys))
  add('revoke', 'revoke a key at once')
    .records('key.revoked')
    .requiredOption('--key <id>', 'id of the key')
    .example('--org org_1 --key key_0123456789abcdef')
    .action(runChange(context, revokeKey))
  add('roll', 'replace a key')
    .records('key.rolled')
    .requiredOption('--key <id>', 'id of the key')
    .option('--grace-hours <hours>', 'how long the old key remains valid', '24')
    .example('--org org_1 --key key_0123456789abcdef --grace-hours 48')
    .action(runChange(context, rollKey))
}

/** Creates an API key. Its secret is in this result and nowhere else. */
const createKey: Task = async (deps, options) => {
  const orgId = await organizationToChange(deps, options)
  const { expires } = options
  const expiresAtMs = expires === undefined ? undefined : Date.parse(expires)
  if (Number.isNaN(expiresAtMs)) {
    throw new UsageError(`--expires must be a time like 2027-01-31T12:00:00Z, not "${expires}".`)
  }
  const mode = parseMode(options)
  const scopes = parseScopes(options.scopes)
  const { name = '', networks: list = '' } = options
  const networks = list.split(',').map(network => network.trim()).filter(text => text !== '')
  const { id, secret, expiresAtMs: endsAtMs } = await deps.apiKeys.create({
    orgId,
    mode,
    scopes,
    name,
    networks,
    createdBy: 'operator',
    expiresAtMs,
  }).catch((error: unknown) => {
    throw error instanceof NewKeyError ? new UsageError(error.message, { cause: error }) : error
  })
  return {
    id,
    secret,
    mode,
    scopes: scopes.join(','),
    networks: networks.length === 0 ? 'all' : networks.join(','),
    expiresAt: toIsoTime(endsAtMs),
    note: SHOWN_ONCE,
  }
}

const listApiKeys: Task = async (deps, options) => {
  const keys = await deps.apiKeys.list(await organizationToRead(deps, options))
  return {
    keys: keys.map(({ createdAtMs, expiresAtMs, revokedAtMs, lastUsedAtMs, ...key }) => ({
      ...key,
      createdAt: toIsoTime(createdAtMs),
      expiresAt: toIsoTime(expiresAtMs),
      revokedAt: toIsoTime(revokedAtMs),
      lastUsedAt: toIsoTime(lastUsedAtMs),
    })),
  }
}

const revokeKey: Task = async (deps, options) => {
  const id = options.key ?? ''
  if (!await deps.apiKeys.revoke(await organizationToChange(deps, options), id)) {
    throw new UsageError(`${options.org} has no key "${id}". List its keys with "key list".`)
  }
  return { id, revoked: true }
}

/** Replaces a key. The old key remains valid for the hours of grace. */
const rollKey: Task = async (deps, options) => {
  const hours = parseFromZero('--grace-hours', options.graceHours)
  const orgId = await organizationToChange(deps, options)
  const created = await deps.apiKeys.roll(orgId, options.key ?? '', {
    graceMs: hours * HOUR_MS, createdBy: 'operator',
  })
  if (created === undefined) {
    throw new UsageError(`${orgId} has no active key "${options.key ?? ''}". List its keys with ` +
      '"key list".')
  }
  const { id, secret, expiresAtMs, oldExpiresAtMs } = created
  return {
    id,
    secret,
    expiresAt: toIsoTime(expiresAtMs),
    replaces: options.key,
    replacedKeyExpiresAt: toIsoTime(oldExpiresAtMs),
    note: SHOWN_ONCE,
  }
}

function parseScopes (text = ''): Scope[] {
  const names = text.split(',').map(name => name.trim())
  const scopes = SCOPES.filter(scope => names.includes(scope))
  if (scopes.length !== new Set(names).size) {
    throw new UsageError(`--scopes must be a list of ${SCOPES.join(', ')}, not "${text}".`)
  }
  return scopes
}
