import { EVENT_TYPES, type EventType } from '../../schemas/api/webhooks.ts'
import { OrganizationErasedError } from '../accounts/organization-keys.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'
import { activeOrFirst, publicKeyText } from '../webhooks/secrets.ts'
import { toAsciiUrl, webhookUrlError } from '../webhooks/url.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import {
  type AdminCommand, type Context, type Options, organizationToChange, type Recording, runChange,
  runTask, type Task, type TaskResult, tenantToChange, tenantToRead, toIsoTime,
} from './command-line.ts'
import type { WorkspaceDeps } from './deps.ts'

/** An operator may create more endpoints than a customer. */
const MAX_ENDPOINTS = 100
const SHOWN_ONCE = 'The secret is not shown again.'

/** Adds `webhook-secret`, `webhook-key`, `webhook-endpoint` and their commands. */
export function addWebhooks (program: AdminCommand, context: Context): void {
  const add = (group: AdminCommand, name: string, description: string) =>
    group.command(name).description(description).requiredOption('--org <id>', 'organization')
      .example('--org org_1')
  const secret = program.command('webhook-secret').description('the secret that signs webhooks')
  add(secret, 'show', 'show the secret').records('webhook_secret.shown')
    .action(runChange(context, async (deps, options) => ({
      webhookSecret: await deps.webhookSecrets.show(await organizationToChange(deps, options)),
    })))
  add(secret, 'rotate', 'replace the secret').records('webhook_secret.rotated')
    .action(runChange(context, async (deps, options) => ({
      webhookSecret: await deps.webhookSecrets.rotate(await organizationToChange(deps, options)),
      note: 'For 24 hours deliveries are also signed with the previous secret.',
    })))
  const key = program.command('webhook-key').description('the key pair that signs webhooks ' +
    '(Ed25519); its private key never leaves the service')
  // Public keys that verify webhooks, the newest first; the first call creates the pair.
  add(key, 'show', 'show the public keys').reads()
    .action(runChange(context, async (deps, options) => {
      const orgId = await organizationToChange(deps, options)
      const keys = await activeOrFirst(deps.webhookSigningKeys, orgId)
      return { publicKeys: keys.map(publicKeyText) }
    }))
  add(key, 'rotate', 'replace the key pair').records('webhook_key.rotated')
    .action(runChange(context, async (deps, options) => {
      const orgId = await organizationToChange(deps, options)
      return {
        publicKey: publicKeyText(await deps.webhookSigningKeys.rotate(orgId)),
        note: 'For 24 hours deliveries are also signed with the previous key.',
      }
    }))
  addEndpoints(program, context)
}

function addEndpoints (program: AdminCommand, context: Context): void {
  const endpoint = program.command('webhook-endpoint')
    .description('addresses that receive the events of all jobs')
  const add = (name: string, description: string) =>
    endpoint.command(name).description(description)
      .requiredOption('--org <id>', 'organization')
      .option('--mode <mode>', 'live or test', 'live')
  const addFor = (name: string, description: string) =>
    add(name, description).requiredOption('--endpoint <id>', 'id of the endpoint')
      .example('--org org_1 --endpoint we_1')
  const switched = (enabled: boolean): Recording => () =>
    ({ action: 'webhook_endpoint.changed', details: { enabled: String(enabled) } })
  add('create', 'create an endpoint; its secret is shown once')
    .records('webhook_endpoint.created')
    .requiredOption('--url <url>', 'public https:// address')
    .option('--events <list>', 'comma-separated event types, or * for all', '*')
    .option('--description <text>', 'a note')
    .example('--org org_1 --url https://hooks.example.com/in --events job.completed')
    .action(runChange(context, createWebhookEndpoint))
  add('list', 'list endpoints without their secrets')
    .reads()
    .example('--org org_1 --mode test')
    .action(runTask(context, listWebhookEndpoints))
  addFor('disable', 'stop sending events')
    .records(switched(false))
    .action(runChange(context, switchEndpoint(false)))
  addFor('enable', 'send events again')
    .records(switched(true))
    .action(runChange(context, switchEndpoint(true)))
  addFor('rotate', 'replace the secret')
    .records('webhook_endpoint.secret_rotated')
    .action(runChange(context, changeEndpoint(
      (endpoints, tenant, id) => endpoints.rotate(tenant, id), ({ id, secret }) => ({
        id,
        secret,
        note: `${SHOWN_ONCE} For 24 hours events are also signed with the previous secret.`,
      }))))
  addFor('delete', 'delete an endpoint')
    .records('webhook_endpoint.deleted')
    .action(runChange(context, changeEndpoint(
      (endpoints, tenant, id) => endpoints.remove(tenant, id),
      ({ id }) => ({ id, deleted: true }))))
}

/** Creates a webhook endpoint. Its secret is in this result and nowhere else. */
const createWebhookEndpoint: Task = async (deps, options) => {
  const tenant = await tenantToChange(deps, options)
  const { url = '', description = '' } = options
  const why = webhookUrlError(url, deps.webhookRules)
  if (why !== undefined) throw new UsageError(`--url is not an acceptable address. ${why}`)
  const events = parseEvents(options)
  const made = await deps.endpoints.create(
    tenant, { url: toAsciiUrl(url), events, description, enabled: true }, MAX_ENDPOINTS)
  if (made === undefined) {
    throw new UsageError(`${tenant} has ${MAX_ENDPOINTS} webhook endpoints already. Delete one ` +
      'with "webhook-endpoint delete".')
  }
  return { ...summarize(made), secret: made.secret, note: SHOWN_ONCE }
}

/** An erased organization has none: what is stored of them cannot be read any more. */
const listWebhookEndpoints: Task = async (deps, options) => {
  const tenant = await tenantToRead(deps, options)
  const list = await deps.endpoints.list(tenant).catch((error: unknown) => {
    if (error instanceof OrganizationErasedError) return []
    throw error
  })
  return { endpoints: list.map(summarize) }
}

/** A task that changes the endpoint in `--endpoint`, and says what has become of it. */
const changeEndpoint = (
  change: (
    endpoints: WorkspaceDeps['endpoints'], tenant: string, id: string,
  ) => Promise<WebhookEndpoint | undefined>,
  describe: (endpoint: WebhookEndpoint) => TaskResult = summarize
): Task => async (deps, options) => {
  const tenant = await tenantToChange(deps, options)
  const { endpoint: id = '' } = options
  const endpoint = await change(deps.endpoints, tenant, id)
  if (endpoint !== undefined) return describe(endpoint)
  throw new UsageError(`${tenant} has no webhook endpoint "${id}". List its endpoints with ` +
    '"webhook-endpoint list".')
}

const switchEndpoint = (enabled: boolean) =>
  changeEndpoint((endpoints, tenant, id) => endpoints.update(tenant, id, { enabled }))

function parseEvents ({ events = '*' }: Options): readonly (EventType | '*')[] {
  const names = events.split(',').map(name => name.trim())
  if (names.includes('*')) return ['*']
  const types = EVENT_TYPES.filter(type => names.includes(type))
  if (types.length === new Set(names).size) return types
  throw new UsageError(`--events must be a list of ${EVENT_TYPES.join(', ')}, or *, not ` +
    `"${events}".`)
}

function summarize (
  { id, url, events, description, enabled, createdAtMs }: WebhookEndpoint
): TaskResult {
  const createdAt = toIsoTime(createdAtMs)
  return { id, url, events: events.join(','), description, enabled, createdAt }
}
