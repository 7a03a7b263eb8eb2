import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { EVENT_TYPES, type EventType } from '../../schemas/api/webhooks.ts'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import {
  type AccountRecords, ACCOUNTS_CACHE_MS, createAccountRecords, organizationRecord, type Wrapped,
  wrappedFields,
} from '../accounts/records.ts'
import { type EventSubscription, subscriptionsField } from '../accounts/organizations.ts'
import { type Mode, MODES, parseTenant, tenantOf } from '../accounts/tenant.ts'
import { newId, timeOfId } from '../runtime/platform/ids.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { type Sleep, sleep as realSleep } from '../runtime/platform/retry.ts'
import { type FormerSecret, ROTATION_MS, stillActive } from './secrets.ts'

/** An address of an organization that receives the events of one mode. */
export type WebhookEndpoint = {
  /** `we_` and a ULID in lower case. */
  readonly id: string
  readonly url: string
  /** Event types, or `*` alone for all, those of later releases included. */
  readonly events: readonly (EventType | '*')[]
  readonly description: string
  readonly enabled: boolean
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** `whsec_` and base64. */
  readonly secret: string
  /** The secret before the last rotation, and until when it signs too; '' and 0 without one. */
  readonly secretBefore: string
  readonly secretBeforeUntilMs: number
  /** Those before it that still sign, newest first; absent without one. */
  readonly earlierSecrets?: readonly FormerSecret[]
}

/** What a customer sets. */
export type EndpointSettings =
  Pick<WebhookEndpoint, 'url' | 'events' | 'description' | 'enabled'>

export type WebhookEndpoints = ReturnType<typeof createWebhookEndpoints>

type Options = {
  readonly redis: RedisClient
  readonly keys: OrganizationKeys
  readonly now?: () => number
  /** The real clock by default. */
  readonly sleep?: Sleep
}

type List = readonly WebhookEndpoint[]

const SECRET_BYTES = 32
const CACHED_TENANTS = 1_000

/** Field of `org:<id>`: the endpoints of a mode, as JSON that the organization's key wraps. */
const endpointsField = (mode: Mode) => `${mode}Endpoints`
const buildBinding = (tenant: string) => ['webhook-endpoints', tenant]
const newSecret = () => `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`

/**
 * The webhook endpoints of each tenant, in the record of its organization: addresses and secrets
 * are wrapped by its key, and every change reaches the topic `accounts`. The record also has
 * the subscriptions in the clear. A change is written only if the record is the one that was read,
 * and returns once every process knows it: the next event is sent to a new endpoint.
 * All methods throw AccountsRecoveringError while a change may be missing in Redis.
 */
export function createWebhookEndpoints (
  { redis, keys, now = Date.now, sleep = realSleep }: Options
) {
  const records = createAccountRecords(redis)
  const read = (tenant: string) => readList(records, keys, tenant)
  const recent = cacheReads(read, now)
  const edit = createEdit({ records, keys, sleep })
  const replace = (tenant: string, id: string, change: (old: WebhookEndpoint) => object) =>
    edit(tenant, list => {
      const old = list.find(endpoint => endpoint.id === id)
      if (old === undefined) return undefined
      const made: WebhookEndpoint = { ...old, ...change(old), updatedAtMs: now() }
      return { list: list.map(endpoint => endpoint.id === id ? made : endpoint), made }
    })
  return {
    /** All endpoints, oldest first. */
    list: async (tenant: string): Promise<List> => (await read(tenant)).list,

    /** The endpoint of an attempt, at most a second old. */
    current: async (tenant: string, id: string): Promise<WebhookEndpoint | undefined> =>
      (await recent(tenant)).list.find(endpoint => endpoint.id === id),

    /** Creates an endpoint; undefined if the tenant has `max` already. */
    create: (tenant: string, settings: EndpointSettings, max: number) => edit(tenant, list => {
      if (list.length >= max) return undefined
      const made: WebhookEndpoint = {
        ...settings,
        id: newId('we', now()),
        createdAtMs: now(),
        updatedAtMs: now(),
        secret: newSecret(),
        secretBefore: '',
        secretBeforeUntilMs: 0,
      }
      return { list: [...list, made], made }
    }),

    /** Changes settings; undefined if there is no such endpoint. */
    update: (tenant: string, id: string, change: Partial<EndpointSettings>) =>
      replace(tenant, id, () => change),

    /** Creates a new secret; each one before it signs beside it until a day after its rotation. */
    rotate: (tenant: string, id: string) => replace(tenant, id, old => ({
      secret: newSecret(),
      secretBefore: old.secret,
      secretBeforeUntilMs: now() + ROTATION_MS,
      earlierSecrets: stillActive(formerSecrets(old), now()),
    })),

    /** Deletes an endpoint and returns it; undefined if there is none. */
    remove: (tenant: string, id: string) => edit(tenant, list => {
      const made = list.find(endpoint => endpoint.id === id)
      return made && { list: list.filter(endpoint => endpoint !== made), made }
    }),

    /** The wrapped endpoints of an organization. */
    wrapped: (orgId: string): Promise<readonly Wrapped[]> =>
      wrappedFields(records, organizationRecord(orgId), MODES.map(mode => ({
        field: endpointsField(mode),
        binding: buildBinding(tenantOf(orgId, mode)),
        class: 'webhooks',
      }))),
  }
}

/** The secrets to sign with at this time, current one first. */
export function activeSecrets (
  endpoint: WebhookEndpoint, nowMs: number
): readonly string[] {
  const former = stillActive(formerSecrets(endpoint), nowMs)
  return [endpoint.secret, ...former.map(({ secret }) => secret)]
}

/** The secrets before the current one; one that never was is over since 1970. */
const formerSecrets = (
  { secretBefore, secretBeforeUntilMs, earlierSecrets = [] }: WebhookEndpoint
): readonly FormerSecret[] =>
  [{ secret: secretBefore, untilMs: secretBeforeUntilMs }, ...earlierSecrets]

type ReadEndpoints = (tenant: string) => Promise<{ readonly list: List }>

/** The same reads; a list is used for as long as an account may be, from before its read on. */
function cacheReads (read: ReadEndpoints, now: () => number): ReadEndpoints {
  const lists = new LRUCache<string, { readonly readAtMs: number, readonly list: List }>({
    max: CACHED_TENANTS,
  })
  return async tenant => {
    let cached = lists.get(tenant)
    if (cached === undefined || now() - cached.readAtMs >= ACCOUNTS_CACHE_MS) {
      const readAtMs = now()
      cached = { readAtMs, list: (await read(tenant)).list }
      lists.set(tenant, cached)
    }
    return cached
  }
}

/** The endpoints of a tenant and the revision of their record. */
async function readList (records: AccountRecords, keys: OrganizationKeys, tenant: string) {
  const { orgId, mode } = parseTenant(tenant)
  const { revision = 0, fields = {} } = await records.readCurrent(organizationRecord(orgId)) ?? {}
  const wrapped = fields[endpointsField(mode)] ?? ''
  if (wrapped === '') return { revision, list: [] }
  const text = await keys.unwrap(orgId, Buffer.from(wrapped, 'base64'), buildBinding(tenant))
  return { revision, list: JSON.parse(text.toString()) as List }
}

type Edited = { readonly list: List, readonly made: WebhookEndpoint }

type EditDeps = Required<Pick<Options, 'keys' | 'sleep'>> & { readonly records: AccountRecords }

/**
 * Applies a change to the endpoints, and waits until no process uses what it read before. It runs
 * again if another process changed the record.
 */
function createEdit ({ records, keys, sleep }: EditDeps) {
  return async (
    tenant: string, change: (list: List) => Edited | undefined
  ): Promise<WebhookEndpoint | undefined> => {
    const { orgId, mode } = parseTenant(tenant)
    for (;;) {
      const { revision, list } = await readList(records, keys, tenant)
      const edited = change(list)
      if (edited === undefined) return undefined
      const content = Buffer.from(JSON.stringify(edited.list))
      const wrapped = await keys.wrap(orgId, content, buildBinding(tenant))
      const subscriptions: readonly EventSubscription[] = edited.list
        .filter(({ enabled }) => enabled).map(({ id, events }) => ({
          endpoint: id,
          events: EVENT_TYPES.filter(type => events.includes('*') || events.includes(type)),
        }))
      const fields = {
        [endpointsField(mode)]: wrapped.toString('base64'),
        [subscriptionsField(mode)]: JSON.stringify(subscriptions),
      }
      const name = organizationRecord(orgId)
      if (!await records.change({ name, from: revision, fields })) continue
      await sleep(ACCOUNTS_CACHE_MS)
      return edited.made
    }
  }
}

/**
 * The ids of the endpoints that receive an event: only those that existed at its time in Unix ms,
 * because after a restart old events are emitted again. Clocks may differ by the second that
 * passes before an endpoint is answered.
 */
export function findReceivers (
  subscriptions: readonly EventSubscription[], type: EventType, atMs: number
): readonly string[] {
  return subscriptions.filter(({ endpoint, events }) => events.includes(type) &&
    timeOfId(endpoint) <= atMs).map(({ endpoint }) => endpoint)
}
