import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { NewKeyError, type CreatedKey, type NewKey } from '../accounts/api-keys.ts'
import { DEFAULT_SCOPES, type Scope, SCOPES } from '../accounts/key-store.ts'
import {
  newOrganizationId, type Organization, type Policy, POLICY_RANGES,
} from '../accounts/organizations.ts'
import { activeOrFirst, publicKeyText } from '../accounts/webhook-secrets.ts'
import { MODES, tenantOf } from '../accounts/tenant.ts'
import { microsOf, usdOf, usdToMicros } from '../money/usd.ts'
import { CommandFailure, UsageError } from '../platform/run-command.ts'
import { KEY_CLASSES } from '../topology.ts'
import {
  HOUR_MS, hoursOf, modeOf, organizationOf, organizationToRead, type Task, type TaskResult,
  tenantFor, tenantToRead, timeOf,
} from './options.ts'
import type { WorkspaceDeps } from './deps.ts'

const COMPARE_TIMEOUT_MS = 30_000
const POLL_MS = 100
const SHOWN_ONCE = 'The secret is not shown again.'

export const createOrganization: Task = async (deps, { name = '', org }) => {
  if (name.trim() === '') throw new UsageError('--name is empty. Pass a name: --name <name>.')
  const { id, name: given, createdAtMs } = await addOrganization(deps, name.trim(), org)
  return { id, name: given, createdAtMs }
}

/**
 * Creates an organization with its keys. They come first: services never create keys, so a crash in
 * between must leave no organization without them. Keys without an organization are never used.
 */
export async function addOrganization (
  { organizations, organizationKeys, wallet }: WorkspaceDeps, name: string,
  id = newOrganizationId()
): Promise<Organization> {
  await organizationKeys.create(id)
  const organization = await organizations.create(name, id)
  if ((await organizationKeys.store.read(id)).length < KEY_CLASSES.length) {
    throw new CommandFailure(`Redis lost the keys of organization ${id} meanwhile, so it ` +
      'cannot be used. Create another one.')
  }
  await Promise.all(MODES.map(mode => wallet.unlockNew(tenantOf(id, mode))))
  return organization
}

/** All organizations with their available live balance, the oldest first. */
export const listOrganizations: Task = async ({ organizations, wallet }) => ({
  organizations: await Promise.all((await organizations.list()).map(async (
    { id, name, createdAtMs, erasedAtMs = 0 }
  ) => ({
    id,
    createdAt: timeOf(createdAtMs),
    availableUsd: usdOf((await wallet.balance(tenantOf(id, 'live'))).availableMicros),
    erasedAt: timeOf(erasedAtMs),
    name,
  }))),
})

/** Adds a version of the keys of all classes, which wraps from now on. */
export const rotateOrganizationKeys: Task = async (deps, options) => {
  const orgId = await organizationOf(deps, options)
  // Before Redis is read, which gets a version first.
  const inTopic = await deps.readKeysInTopic(orgId)
  return {
    orgId,
    version: await deps.organizationKeys.rotate(orgId, inTopic),
    note: 'Run "keys rewrap" in a minute: it wraps everything with these keys, and deletes the ' +
      'replaced ones.',
  }
}

/** Creates an API key. Its secret is in this result and nowhere else. */
export const createKey: Task = async (deps, options) => {
  const orgId = await organizationOf(deps, options)
  const expiresAtMs = options.expires === undefined ? undefined : expiryOf(options.expires)
  const mode = modeOf(options)
  const scopes = scopesOf(options.scopes)
  const { name = '', networks: list = '' } = options
  const networks = list.split(',').map(network => network.trim()).filter(text => text !== '')
  const { id, secret, expiresAtMs: endsAtMs } = await createdKey(deps, {
    orgId,
    mode,
    scopes,
    name,
    networks,
    createdBy: 'operator',
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
  })
  return {
    id,
    secret,
    mode,
    scopes: scopes.join(','),
    networks: networks.length === 0 ? 'all' : networks.join(','),
    expiresAt: timeOf(endsAtMs),
    note: SHOWN_ONCE,
  }
}

async function createdKey ({ apiKeys }: WorkspaceDeps, key: NewKey): Promise<CreatedKey> {
  try {
    return await apiKeys.create(key)
  } catch (error) {
    throw error instanceof NewKeyError ? new UsageError(error.message, { cause: error }) : error
  }
}

export const listApiKeys: Task = async (deps, options) => {
  const keys = await deps.apiKeys.list(await organizationToRead(deps, options))
  return {
    keys: keys.map(({ createdAtMs, expiresAtMs, revokedAtMs, lastUsedAtMs, ...key }) => ({
      ...key,
      createdAt: timeOf(createdAtMs),
      expiresAt: timeOf(expiresAtMs),
      revokedAt: timeOf(revokedAtMs),
      lastUsedAt: timeOf(lastUsedAtMs),
    })),
  }
}

export const revokeKey: Task = async (deps, options) => {
  const id = options.key ?? ''
  if (!await deps.apiKeys.revoke(await organizationOf(deps, options), id)) {
    throw new UsageError(`${options.org} has no key "${id}". List its keys with "key list".`)
  }
  return { id, revoked: true }
}

/** Replaces a key. The old key remains valid for the hours of grace. */
export const rollKey: Task = async (deps, options) => {
  const hours = hoursOf(options.graceHours)
  const orgId = await organizationOf(deps, options)
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
    expiresAt: timeOf(expiresAtMs),
    replaces: options.key,
    replacedKeyExpiresAt: timeOf(oldExpiresAtMs),
    note: SHOWN_ONCE,
  }
}

/** Adds money. Repeating the id of an earlier top-up adds nothing. */
export const topUp: Task = async (deps, options) => {
  const tenant = await tenantFor(deps, options)
  const { usd, micros, id = `topup:${randomUUID()}`, reason = 'top-up' } = options
  if ((usd === undefined) === (micros === undefined)) {
    throw new UsageError('Pass the amount as either --usd or --micros.')
  }
  const amountMicros = usd === undefined ? microsOf(micros ?? '') : usdToMicros(usd)
  const posting = await deps.wallet.topUp(tenant, { id, amountMicros, reason })
  if (posting.kind === 'conflict') throw idConflict(id, amountMicros)
  return { id, posting: posting.kind, amountMicros, ...await balanceOf(deps, tenant) }
}

/** Corrects a balance with a journal entry. A frozen balance has to be thawed first. */
export const adjust: Task = async (deps, options) => {
  const tenant = await tenantFor(deps, options)
  const { micros = '', reason = '', id = `adjust:${randomUUID()}` } = options
  const amountMicros = Number(micros)
  if (!/^-?\d+$/.test(micros) || !Number.isSafeInteger(amountMicros) || amountMicros === 0) {
    throw new UsageError('--micros must be a whole number other than 0, like 2000 or -2000, not ' +
      `"${micros}".`)
  }
  if (reason.trim() === '') {
    throw new UsageError('--reason is empty. Pass a reason for the journal: --reason <text>.')
  }
  const posting = await deps.wallet.adjust(tenant, { id, amountMicros, reason: reason.trim() })
  if (posting.kind === 'conflict') throw idConflict(id, amountMicros)
  if (posting.kind === 'insufficient') {
    throw new UsageError(`cannot subtract ${-amountMicros} micros from ${tenant}: only ` +
      `${posting.availableMicros} micros are available.`)
  }
  return { id, posting: posting.kind, amountMicros, ...await balanceOf(deps, tenant) }
}

/**
 * Requests another comparison of a frozen balance with the journal, and returns its outcome. The
 * jobs of an organization that is being erased cannot end while its balance is frozen.
 */
export const thaw: Task = async (deps, options) => {
  const tenant = await tenantToRead(deps, options)
  const { trust } = options
  if (trust !== undefined && trust !== 'journal') {
    throw new UsageError(`--trust must be "journal", not "${trust}".`)
  }
  const before = await deps.gates.read(tenant)
  if (before.isUnlocked && before.frozen === '') {
    return { state: 'not_frozen', ...await balanceOf(deps, tenant) }
  }
  await deps.gates.thaw(tenant, trust === 'journal')
  const { isUnlocked, frozen } = await waitForComparison(deps, tenant)
  if (!isUnlocked) {
    return {
      tenant,
      state: 'waiting',
      note: `No ledger compared it within ${COMPARE_TIMEOUT_MS / 1_000} seconds; check that ` +
        'ledger runs.',
    }
  }
  if (frozen !== '') return { tenant, state: 'frozen', why: frozen }
  return { state: 'thawed', ...await balanceOf(deps, tenant) }
}

async function waitForComparison ({ gates }: WorkspaceDeps, tenant: string) {
  const deadlineMs = Date.now() + COMPARE_TIMEOUT_MS
  for (;;) {
    const gate = await gates.read(tenant)
    if (gate.isUnlocked || Date.now() >= deadlineMs) return gate
    await pause(POLL_MS)
  }
}

export const showBalance: Task = async (deps, options) =>
  balanceOf(deps, await tenantToRead(deps, options))

/** All amounts in micros, and the available amount in USD. */
async function balanceOf ({ wallet }: WorkspaceDeps, tenant: string): Promise<TaskResult> {
  const balance = await wallet.balance(tenant)
  return { tenant, ...balance, availableUsd: usdOf(balance.availableMicros) }
}

/** Sets the values that are passed, then returns the policy of the organization. */
export const policy: Task = async (deps, options) => {
  const names = Object.keys(POLICY_RANGES) as (keyof Policy)[]
  const change = names.flatMap(name => {
    const text = options[name]
    return text === undefined ? [] : [[name, policyValueOf(text)] as const]
  })
  const isRead = change.length === 0
  const orgId = await (isRead ? organizationToRead : organizationOf)(deps, options)
  if (!isRead) await deps.organizations.setPolicy(orgId, Object.fromEntries(change))
  const current = (await deps.organizations.find(orgId))?.policy
  return { orgId, ...Object.fromEntries(names.map(name => [name, current?.[name] ?? 'default'])) }
}

/** NaN for a text that is not a whole number; the range check then rejects it. */
function policyValueOf (text: string): number | 'default' {
  if (text === 'default') return text
  return /^\d+$/.test(text) ? Number(text) : NaN
}

export const showWebhookSecret: Task = async (deps, options) =>
  ({ webhookSecret: await deps.webhookSecrets.show(await organizationOf(deps, options)) })

export const rotateWebhookSecret: Task = async (deps, options) => ({
  webhookSecret: await deps.webhookSecrets.rotate(await organizationOf(deps, options)),
  note: 'For 24 hours deliveries are also signed with the previous secret.',
})

/** The public keys that verify webhooks without a secret, the newest first. */
export const showWebhookKeys: Task = async (deps, options) => {
  const orgId = await organizationOf(deps, options)
  const keys = await activeOrFirst(deps.webhookSigningKeys, orgId)
  return { publicKeys: keys.map(publicKeyText) }
}

export const rotateWebhookKey: Task = async (deps, options) => ({
  publicKey: publicKeyText(
    await deps.webhookSigningKeys.rotate(await organizationOf(deps, options))),
  note: 'For 24 hours deliveries are also signed with the previous key.',
})

function scopesOf (text = DEFAULT_SCOPES.join(',')): Scope[] {
  const names = text.split(',').map(name => name.trim())
  const scopes = SCOPES.filter(scope => names.includes(scope))
  if (scopes.length !== new Set(names).size) {
    throw new UsageError(`--scopes must be a list of ${SCOPES.join(', ')}, not "${text}".`)
  }
  return scopes
}

function expiryOf (text: string): number {
  const ms = Date.parse(text)
  if (Number.isNaN(ms)) {
    throw new UsageError(`--expires must be a time like 2027-01-31T12:00:00Z, not "${text}".`)
  }
  return ms
}

function idConflict (id: string, amountMicros: number): UsageError {
  return new UsageError(`the id ${id} was already used with an amount other than ` +
    `${amountMicros} micros. Pass another --id, or the same amount.`)
}
