import Type, { type Static } from 'typebox'
import { connectAllKeys } from '../accounts/connect-organization-keys.ts'
import { createOrganizationKeyStore } from '../accounts/organization-key-store.ts'
import {
  copiesInTopic, organizationKeyTombstone, sendOrganizationKeys,
} from '../accounts/organization-keys-topic.ts'
import { organizationKeyId } from '../accounts/organization-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { partsOf } from '../accounts/tenant.ts'
import { createTenants } from '../money/tenants.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { commonConfig, loadConfig, pick, rootKeys } from '../runtime/platform/config.ts'
import { readRootKeyHolders } from '../runtime/platform/root-key-holders.ts'
import { newestOf, readKeysOf, type KeyReport, type KeysByOrganization } from './key-report.ts'
import { listKeys, rewrapAll, type RotationDeps } from './key-rotation.ts'
import { withStores, type Stores } from './stores.ts'
import { wrappedKeySources } from './wrapped-keys.ts'

const config = Type.Object(pick(commonConfig, [
  ...rootKeys.results, ...rootKeys.webhooks, ...rootKeys.partners,
]))

/** `keys list` on the stack in `env`; throws ConfigError when a setting is missing. */
export async function listEncryptionKeys (
  env: Environment
): Promise<KeyReport & { readonly note: string }> {
  const settings = loadConfig(config, env)
  const report = await withStores(env, stores => listKeys(rotationDeps(stores, settings)))
  return { ...report, note: rotationNote(report) }
}

/** `keys rewrap` on the stack in `env`; throws ConfigError when a setting is missing. */
export async function rewrapKeys (env: Environment) {
  const settings = loadConfig(config, env)
  const report = await withStores(env, stores => rewrapAll(rotationDeps(stores, settings)))
  return { ...report, note: rotationNote(report) }
}

/** The versions of an organization's keys that the topic `organization.keys` has. */
export const readKeysInTopic = (env: Environment, orgId: string) =>
  withStores(env, stores => copiesInTopic(stores, orgId))

/** The next step for the operator, in words. */
export function rotationNote ({ lacking, rootKeys: roots, replaced }: KeyReport): string {
  if (lacking.length > 0) {
    return `Missing, but still needed: ${lacking.join(', ')}. Put root keys back into their ` +
      'setting. Ledger restores keys of organizations from topic organization.keys within a ' +
      'minute; if keys are still missing then, restart every ledger.'
  }
  const unknown = roots.filter(({ isActive, missingIn }) => isActive && missingIn.length > 0)
  if (unknown.length > 0) {
    const lines = unknown.map(root => `These processes lack the active key "${root.id}" of ` +
      `${rootKeys[root.class][0]}: ${root.missingIn.join(', ')}.`)
    return `${lines.join(' ')} Give it to them and restart them first: "keys rewrap" ` +
      'is refused before that.'
  }
  if (replaced.length > 0) {
    return 'Some keys of organizations are replaced but not deleted yet. Run "keys rewrap" again ' +
      'a minute after they were replaced.'
  }
  const free = roots.filter(({ isFree }) => isFree).map(root =>
    `"${root.id}" of ${rootKeys[root.class][0]}`)
  return free.length === 0
    ? 'Every root key is active or wraps something. Run "keys rewrap" before you remove one.'
    : `Nothing is wrapped by ${free.join(', ')}, and no running process has it as active: a new ` +
      'key is not in use yet, a replaced one may be removed from the setting.'
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
        newestOf(organizations.get(orgId) ?? [], 'results') ?? { class: 'results', version: 1 }),
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
  return await readKeysOf(createOrganizationKeyStore(redis), organizations)
}
