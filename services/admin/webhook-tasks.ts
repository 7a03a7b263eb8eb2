import { EVENT_TYPES, type EventType } from '../../schemas/api/event.ts'
import { OrganizationErasedError } from '../accounts/organization-key-store.ts'
import type { WebhookEndpoint } from '../accounts/webhook-endpoints.ts'
import { asciiUrlOf, webhookUrlError } from '../accounts/webhook-url.ts'
import { UsageError } from '../platform/run-command.ts'
import {
  tenantFor, tenantToRead, timeOf, type Options, type Task, type TaskResult,
} from './options.ts'

/** An operator may create more endpoints than a customer. */
const MAX_ENDPOINTS = 100
const SHOWN_ONCE = 'The secret is not shown again.'

/** Creates a webhook endpoint. Its secret is in this result and nowhere else. */
export const createWebhookEndpoint: Task = async (deps, options) => {
  const tenant = await tenantFor(deps, options)
  const { url = '', description = '' } = options
  const why = webhookUrlError(url, deps.webhookRules)
  if (why !== undefined) throw new UsageError(`--url is not an acceptable address. ${why}`)
  const settings = { url: asciiUrlOf(url), events: eventsOf(options), description, enabled: true }
  const made = await deps.endpoints.create(tenant, settings, MAX_ENDPOINTS)
  if (made === undefined) {
    throw new UsageError(`${tenant} has ${MAX_ENDPOINTS} webhook endpoints already. Delete one ` +
      'with "webhook-endpoint delete".')
  }
  return { ...summaryOf(made), secret: made.secret, note: SHOWN_ONCE }
}

/** An erased organization has none: what is stored of them cannot be read any more. */
export const listWebhookEndpoints: Task = async (deps, options) => {
  const tenant = await tenantToRead(deps, options)
  const list = await deps.endpoints.list(tenant).catch((error: unknown) => {
    if (error instanceof OrganizationErasedError) return []
    throw error
  })
  return { endpoints: list.map(summaryOf) }
}

/** Disables or enables an endpoint. */
export const switchWebhookEndpoint = (enabled: boolean): Task => async (deps, options) => {
  const tenant = await tenantFor(deps, options)
  const { endpoint = '' } = options
  const made = await deps.endpoints.update(tenant, endpoint, { enabled })
  return summaryOf(existing(made, { tenant, endpoint }))
}

export const deleteWebhookEndpoint: Task = async (deps, options) => {
  const tenant = await tenantFor(deps, options)
  const { endpoint = '' } = options
  const { id } = existing(await deps.endpoints.remove(tenant, endpoint), { tenant, endpoint })
  return { id, deleted: true }
}

/** Replaces the secret; the old one signs beside it for a day. */
export const rotateWebhookEndpoint: Task = async (deps, options) => {
  const tenant = await tenantFor(deps, options)
  const { endpoint = '' } = options
  const { id, secret } =
    existing(await deps.endpoints.rotate(tenant, endpoint), { tenant, endpoint })
  return {
    id,
    secret,
    note: `${SHOWN_ONCE} For 24 hours events are also signed with the previous secret.`,
  }
}

function existing (
  found: WebhookEndpoint | undefined,
  { tenant, endpoint }: { readonly tenant: string, readonly endpoint: string }
): WebhookEndpoint {
  if (found !== undefined) return found
  throw new UsageError(`${tenant} has no webhook endpoint "${endpoint}". List its endpoints with ` +
    '"webhook-endpoint list".')
}

function eventsOf ({ events = '*' }: Options): readonly (EventType | '*')[] {
  const names = events.split(',').map(name => name.trim())
  if (names.includes('*')) return ['*']
  const found = EVENT_TYPES.filter(type => names.includes(type))
  if (found.length === new Set(names).size) return found
  throw new UsageError(`--events must be a list of ${EVENT_TYPES.join(', ')}, or *, not ` +
    `"${events}".`)
}

function summaryOf (
  { id, url, events, description, enabled, createdAtMs }: WebhookEndpoint
): TaskResult {
  return { id, url, events: events.join(','), description, enabled, createdAt: timeOf(createdAtMs) }
}
