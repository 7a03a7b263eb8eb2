import Type, { type Static } from 'typebox'
import { connectAllKeys } from '../accounts/connect-organization-keys.ts'
import { createOrganizationKeyStore } from '../accounts/organization-key-store.ts'
import {
  organizationKeyTombstone, sendOrganizationKeys,
} from '../accounts/organization-keys-topic.ts'
import { organizationKeyId } from '../accounts/organization-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { partsOf } from '../accounts/tenant.ts'
import { createTenants } from '../money/tenants.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { commonConfig, loadConfig, pick, rootKeys } from '../runtime/platform/config.ts'
import { readRootKeyHolders } from '../runtime/platform/root-key-holders.ts'
import type { AdminCommand } from './admin-command.ts'
import {
  type Context, organizationToChange, runAndPrint, runChange, type Task,
} from './command-line.ts'
import { type Stores, withStores } from './connections.ts'
import {
  type KeyReport, type KeysByOrganization, listKeys, newestKey, readOrganizationKeys, rewrapAll,
  type RewrapReport, type RotationDeps, rotationNote, wrappedKeySources,
} from './key-rotation.ts'

type Report = KeyReport & Partial<Pick<RewrapReport, 'damaged'>>

/** Adds the commands for root keys and the keys of organizations. */
export function addEncryptionKeys (program: AdminCommand, context: Context): void {
  const keys = program.command('keys').description('root keys and keys of organizations, which ' +
    'wrap all others')
  const add = (
    name: 'list' | 'rewrap', description: string,
    report: (env: Environment) => Promise<Report>
  ) => keys.command(name).description(description)
    .action(runAndPrint(context, async ({ env }) => {
      const data = await report(env)
      const { lacking, damaged = [] } = data
      for (const key of damaged) {
        console.error(`${key} is damaged: its bytes do not open, so what it wraps was left as it ` +
          'is. Restart every ledger, which restores the key from topic organization.keys, or put ' +
          'it back from a backup; then run "keys rewrap" again.')
      }
      return {
        data,
        described: { target: activeRootKeys(data) },
        isUndone: lacking.length + damaged.length > 0,
      }
    }))
  add('list', 'show what each key wraps', listEncryptionKeys)
    .reads()
    .example('--json')
  add('rewrap', 'wrap everything with the active root keys and the newest keys of organizations; ' +
    'delete replaced ones', rewrapKeys)
    .records('keys.rewrapped')
    .example()
  keys.command('rotate').description('create new keys of an organization; then run "keys rewrap"')
    .records('keys.rotated')
    .requiredOption('--org <id>', 'organization')
    .example('--org org_1')
    .action(runChange(context, rotateOrganizationKeys))
}

/** Adds a version of the keys of all classes, which wraps from now on. */
const rotateOrganizationKeys: Task = async (deps, options) => {
  const orgId = await organizationToChange(deps, options)
  // Before Redis is read, which gets a version first.
  const inTopic = await deps.readKeysInTopic(orgId)
  return {
    orgId,
    version: await deps.organizationKeys.rotate(orgId, inTopic),
    note: 'Run "keys rewrap" in a minute: it wraps everything with these keys, and deletes the ' +
      'replaced ones.',
  }
}

/** The active root key of each class: `results:2 webhooks:2 partners:1`. */
function activeRootKeys ({ rootKeys }: KeyReport): string {
  return rootKeys.filter(({ isActive }) => isActive).map(root =>
    `${root.class}:${root.id}`).join(' ')
}

const config = Type.Object(pick(commonConfig, [
  ...rootKeys.results, ...rootKeys.webhooks, ...rootKeys.partners,
]))

/** `keys list` on the stack in `env`; throws ConfigError when a setting is missing. */
async function listEncryptionKeys (
  env: Environment
): Promise<KeyReport & { readonly note: string }> {
  const settings = loadConfig(config, env)
  const report = await withStores(env, stores => listKeys(rotationDeps(stores, settings)))
  return { ...report, note: rotationNote(report) }
}

/** `keys rewrap` on the stack in `env`; throws ConfigError when a setting is missing. */
async function rewrapKeys (env: Environment) {
  const settings = loadConfig(config, env)
  const report = await withStores(env, stores => rewrapAll(rotationDeps(stores, settings)))
  return { ...report, note: rotationNote(report) }
}

/** The dependencies of a rotation, on open connections. */
function rotationDeps (stores: Stores, settings: Static<typeof config>): RotationDeps {
  const { redis, codec, producer } = stores
  const keys = connectAllKeys(redis, settings)
  return {
    store: keys.store,
    keys,
    roots: keys.roots,
    readKeys: () => readAllKeys(stores),
    readHolders: () => readRootKeyHolders(redis),
    sourcesOf: organizations => wrappedKeySources(stores, {
      organizations: [...organizations.keys()],
      keys,
      activeIdOf: orgId => organizationKeyId(
        newestKey(organizations.get(orgId) ?? [], 'results') ?? { class: 'results', version: 1 }),
    }),
    isErased: createOrganizations(redis).isErased,
    sendKeys: (orgId, sent) =>
      sendOrganizationKeys({ codec, accountsProducer: producer }, { orgId, keys: sent }),
    sendTombstone: async (orgId, key) => {
      await producer.send([organizationKeyTombstone(orgId, key)])
    },
    now: Date.now,
  }
}

/** The keys of all organizations. */
async function readAllKeys ({ redis }: Pick<Stores, 'redis'>): Promise<KeysByOrganization> {
  const organizations = new Set((await createTenants(redis).all()).map(tenant =>
    partsOf(tenant).orgId))
  return await readOrganizationKeys(createOrganizationKeyStore(redis), organizations)
}
