import Type, { type Static } from 'typebox'
import { connectAllKeys } from '../accounts/connect-organization-keys.ts'
import { organizationKeyId } from '../accounts/organization-keys.ts'
import { createOrganizationKeyStore } from '../accounts/organization-key-store.ts'
import { organizationKeyTombstone, sendOrganizationKeys } from '../accounts/account-topics.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { partsOf } from '../accounts/tenant.ts'
import { createTenants } from '../money/tenants.ts'
import { commonConfig, loadConfig, pick, rootKeys } from '../runtime/platform/config.ts'
import { readRootKeyHolders } from '../runtime/platform/root-key-holders.ts'
import {
  type AdminCommand, type Context, organizationToChange, runAndPrint, runChange, type Task,
} from './command-line.ts'
import { type Stores, withStores } from './deps.ts'
import {
  type KeyReport, listKeys, newestKey, readOrganizationKeys, rewrapAll, type RewrapReport,
  type RotationDeps, rotationNote, wrappedKeySources,
} from './key-rotation.ts'

type Report = KeyReport & Partial<Pick<RewrapReport, 'damaged'>>

/** Adds the commands for root keys and the keys of organizations. */
export function addEncryptionKeys (program: AdminCommand, context: Context): void {
  const keys = program.command('keys').description('root keys and keys of organizations, which ' +
    'wrap all others')
  const add = (
    name: 'list' | 'rewrap', description: string,
    report: (deps: RotationDeps) => Promise<Report>
  ) => keys.command(name).description(description)
    .action(runAndPrint(context, async ({ env }) => {
      const settings = loadConfig(config, env)
      const keyReport = await withStores(env, stores => report(rotationDeps(stores, settings)))
      const { rootKeys: roots, lacking, damaged = [] } = keyReport
      for (const key of damaged) {
        console.error(`${key} is damaged: its bytes do not open, so what it wraps was left as it ` +
          'is. Restart every ledger, which restores the key from topic organization.keys, or put ' +
          'it back from a backup; then run "keys rewrap" again.')
      }
      // `results:2 webhooks:2 partners:1`.
      const active = roots.filter(({ isActive }) => isActive).map(root =>
        `${root.class}:${root.id}`)
      return {
        data: { ...keyReport, note: rotationNote(keyReport) },
        described: { target: active.join(' ') },
        isUndone: lacking.length + damaged.length > 0,
      }
    }))
  add('list', 'show what each key wraps', listKeys)
    .reads()
    .example('--json')
  add('rewrap', 'wrap everything with the active root keys and the newest keys of organizations; ' +
    'delete replaced ones', rewrapAll)
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

const config = Type.Object(pick(commonConfig, [
  ...rootKeys.results, ...rootKeys.webhooks, ...rootKeys.partners,
]))

/** The dependencies of a rotation, on open connections. */
function rotationDeps (stores: Stores, settings: Static<typeof config>): RotationDeps {
  const { redis, codec, producer } = stores
  const keys = connectAllKeys(redis, settings)
  return {
    store: keys.store,
    keys,
    roots: keys.roots,
    readKeys: async () => {
      const tenants = await createTenants(redis).all()
      const organizations = new Set(tenants.map(tenant => partsOf(tenant).orgId))
      return await readOrganizationKeys(createOrganizationKeyStore(redis), organizations)
    },
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
