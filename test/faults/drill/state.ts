import { createHash, randomUUID } from 'node:crypto'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { createClient } from '../../../services/client/client.ts'
import { Clickhouse } from '../../../services/runtime/platform/clickhouse.ts'
import { createRecordMac } from '../../../services/runtime/crypto/mac.ts'
import { CHAIN_START, createJournalCopy } from '../../../services/money/journal.ts'
import { createDemo, createDemoPartner } from '../../../services/admin/demo.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'
import { mixedPhones } from '../../bench/jobs.ts'
import { runAudit } from '../../support/audit.ts'
import { messageKeysOf } from '../../support/keys/signed.ts'
import type { Environment } from '../environment.ts'

/** What a customer and an operator see of the system, as texts to compare. */
export type State = Readonly<Record<Item, string>>

export const ITEMS = [
  'accounts', 'API keys', 'balance', 'record of a closed job', 'results of a closed job',
  'idempotency key', 'copy of the journal', 'audit',
] as const

export type Item = typeof ITEMS[number]

/** A customer whose accounts, jobs and money are compared. */
export type Customer = {
  readonly tenant: string
  readonly observe: () => Promise<State>
  /** How a job ends that is created now. */
  readonly work: () => Promise<string>
}

const ROWS = 200
const REQUEST = { service: 'phone-validation', inputs: mixedPhones(ROWS, 0) } as const

/** Makes a customer with a partner, a good key, a revoked one, and a closed job. */
export async function createCustomer ({ stack, services }: Environment): Promise<Customer> {
  const { env } = stack
  const { orgId, keys } = await createDemo(env)
  const tenant = tenantOf(orgId, 'live')
  await createDemoPartner(env, orgId)
  const revoked = await withWorkspace(env, async ({ apiKeys, organizations, accounts }) => {
    await organizations.setPolicy(orgId, { freshnessDays: 7 })
    const key = await apiKeys.create({ orgId, mode: 'live', scopes: ['jobs:read'] })
    await apiKeys.revoke(orgId, key.id)
    if (!await accounts.areShipped()) throw new Error('accounts were not shipped to their topic')
    return key.secret
  })
  const [baseUrl = ''] = services.baseUrls()
  const clientOf = (apiKey: string) => createClient({ baseUrl, apiKey })
  const client = clientOf(keys.live)
  const idempotencyKey = randomUUID()
  const { id } = await client.createJob(REQUEST, idempotencyKey)
  await client.waitForEnd(id)
  const reads: Readonly<Record<Item, () => Promise<unknown>>> = {
    accounts: () => withWorkspace(env, async parts => [
      await parts.organizations.find(orgId),
      (await parts.apiKeys.list(orgId)).map(key => ({ ...key, lastUsedAtMs: 0 })),
      await parts.partners.list(), (await parts.webhookSecrets.active(orgId)).map(digestOf),
    ]),
    'API keys': async () => [
      await ended(client.balance()), await ended(clientOf(revoked).balance()),
    ],
    balance: () => withWorkspace(env, ({ wallet }) => wallet.balance(tenant)),
    'record of a closed job': () => client.job(id),
    'results of a closed job': async () => digestOf(String(await client.results(id))),
    'idempotency key': async () => (await client.createJob(REQUEST, idempotencyKey)).id,
    'copy of the journal': () => copyOf(env, tenant),
    audit: async () => (await runAudit(env, { only: [tenant] })).breaches,
  }
  return {
    tenant,
    observe: async () => Object.fromEntries(await Promise.all(ITEMS.map(async item =>
      [item, await textOf(reads[item])] as const))) as Record<Item, string>,
    work: () => textOf(async () => {
      const job = await client.createJob({ ...REQUEST, forceFresh: true }, randomUUID())
      return (await client.waitForEnd(job.id)).status
    }),
  }
}

/** `ok`, or the code of the error. */
async function ended (answer: Promise<unknown>): Promise<string> {
  return await answer.then(() => 'ok', (error: { readonly code?: string }) =>
    error.code ?? 'failed')
}

async function copyOf (env: Readonly<Record<string, string>>, tenant: string): Promise<unknown> {
  const clickhouse = new Clickhouse(env['CLICKHOUSE_URL'] ?? '')
  try {
    const copy = createJournalCopy(clickhouse, createRecordMac(messageKeysOf(env)))
    return (await copy.heads(new Map([[tenant, CHAIN_START]]))).get(tenant)
  } finally {
    await clickhouse.close()
  }
}

const digestOf = (text: string) => createHash('sha256').update(text).digest('hex')

async function textOf (read: () => Promise<unknown>): Promise<string> {
  try {
    return JSON.stringify(await read())
  } catch (error) {
    return `error: ${error instanceof Error ? error.message : String(error)}`
  }
}
