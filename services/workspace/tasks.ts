import { randomUUID } from 'node:crypto'
import { SCOPES, type Scope } from '../accounts/api-keys.ts'
import { POLICY_RANGES, type Policy } from '../accounts/policy.ts'
import { MODES, tenantOf } from '../accounts/tenant.ts'
import { microsOf, usdOf, usdToMicros } from './amount.ts'
import { UsageError } from '../lib/run-command.ts'
import {
  HOUR_MS, hoursOf, modeOf, organizationOf, timeOf, type Options, type Shown, type Task,
} from './options.ts'
import type { WorkspaceParts } from './parts.ts'

export type { Options, Shown, Task }

export const createOrganization: Task = async ({ organizations, wallet }, { name = '' }) => {
  if (name.trim() === '') throw new UsageError('Give the organization a name: --name <name>.')
  const organization = await organizations.create(name.trim())
  await Promise.all(MODES.map(mode => wallet.admit(tenantOf(organization.id, mode))))
  const { id, createdAtMs } = organization
  return { id, name: organization.name, createdAtMs }
}

/** Makes a key; this is the only time its secret is shown. */
export const createKey: Task = async (parts, options) => {
  const orgId = await organizationOf(parts, options)
  const expiresAtMs = options.expires === undefined ? undefined : momentOf(options.expires)
  const mode = modeOf(options)
  const scopes = scopesOf(options.scopes)
  const { id, secret } = await parts.apiKeys.create({
    orgId, mode, scopes, ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
  })
  return { id, secret, mode, scopes: scopes.join(','), note: 'The secret is not shown again.' }
}

export const listKeys: Task = async (parts, options) => {
  const keys = await parts.apiKeys.list(await organizationOf(parts, options))
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

export const revokeKey: Task = async (parts, options) => {
  const id = options.key ?? ''
  const isKnown = await parts.apiKeys.revoke(await organizationOf(parts, options), id)
  if (!isKnown) throw new UsageError(`There is no key ${id}; "key list" shows the ids.`)
  return { id, revoked: true }
}

/** Replaces a key; the old one works on for the hours of grace. */
export const rollKey: Task = async (parts, options) => {
  const hours = hoursOf(options.graceHours)
  const orgId = await organizationOf(parts, options)
  const fresh = await parts.apiKeys.roll(orgId, options.key ?? '', hours * HOUR_MS)
  if (fresh === undefined) throw new UsageError(`There is no usable key ${options.key}.`)
  return { ...fresh, replaces: options.key, note: 'The secret is not shown again.' }
}

/** Adds money. With the id of an earlier top-up nothing is added a second time. */
export const topUp: Task = async (parts, options) => {
  const tenant = await tenantFor(parts, options)
  const { usd, micros, id = `topup:${randomUUID()}`, reason = 'top-up' } = options
  if ((usd === undefined) === (micros === undefined)) {
    throw new UsageError('Give the amount as either --usd or --micros.')
  }
  const amountMicros = usd === undefined ? microsOf(micros ?? '') : usdToMicros(usd)
  const posting = await parts.wallet.topUp(tenant, { id, amountMicros, reason })
  if (posting.kind === 'conflict') {
    throw new UsageError(`The id ${id} was used with another amount.`)
  }
  return { id, posting: posting.kind, amountMicros, ...await balanceShown(parts, tenant) }
}

export const showBalance: Task = async (parts, options) =>
  balanceShown(parts, await tenantFor(parts, options))

/** Shows what an organization may, after changing what is given. */
export const policy: Task = async (parts, options) => {
  const orgId = await organizationOf(parts, options)
  const names = Object.keys(POLICY_RANGES) as (keyof Policy)[]
  const given = names.flatMap(name => {
    const text = options[name]
    return text === undefined ? [] : [[name, policyValueOf(text)] as const]
  })
  if (given.length > 0) await parts.organizations.setPolicy(orgId, Object.fromEntries(given))
  const now = (await parts.organizations.find(orgId))?.policy
  return { orgId, ...Object.fromEntries(names.map(name => [name, now?.[name] ?? 'default'])) }
}

/** What is no whole number is no policy, as the range then says. */
function policyValueOf (text: string): number | 'default' {
  if (text === 'default') return text
  return /^\d+$/.test(text) ? Number(text) : NaN
}

export const showWebhookSecret: Task = async (parts, options) =>
  ({ webhookSecret: await parts.webhookSecrets.show(await organizationOf(parts, options)) })

export const rotateWebhookSecret: Task = async (parts, options) => ({
  webhookSecret: await parts.webhookSecrets.rotate(await organizationOf(parts, options)),
  note: 'Deliveries carry a signature of the secret before, too, for 24 hours.',
})

/**
 * The tenant that the organization and the mode of a command name.
 * @throws UsageError when there is no such organization, or the mode is none.
 */
export async function tenantFor (parts: WorkspaceParts, options: Options): Promise<string> {
  return tenantOf(await organizationOf(parts, options), modeOf(options))
}

/** A tenant's balance for people: all amounts in micros, what is available in USD as well. */
export async function balanceShown ({ wallet }: WorkspaceParts, tenant: string): Promise<Shown> {
  const balance = await wallet.balance(tenant)
  return { tenant, ...balance, availableUsd: usdOf(balance.availableMicros) }
}

function scopesOf (text = SCOPES.join(',')): Scope[] {
  const names = text.split(',').map(name => name.trim())
  const scopes = SCOPES.filter(scope => names.includes(scope))
  if (scopes.length !== new Set(names).size) {
    throw new UsageError(`--scopes is a list of ${SCOPES.join(', ')}.`)
  }
  return scopes
}

function momentOf (text: string): number {
  const moment = Date.parse(text)
  if (Number.isNaN(moment)) throw new UsageError('--expires is a time like 2027-01-31T12:00:00Z.')
  return moment
}
