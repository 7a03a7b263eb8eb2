import Type from 'typebox'
import { connectAllKeys } from '../accounts/connect-organization-keys.ts'
import { commonConfig, loadConfig, pick, rootKeys } from '../runtime/platform/config.ts'
import {
  type AdminCommand, type Context, organizationToChange, runAndPrint, runChange, type Task,
} from './command-line.ts'
import { withStores } from './deps.ts'
import {
  type KeyReport, listKeys, rewrapAll, type RotationDeps, rotationDeps, rotationNote,
} from './key-rotation.ts'

const config = Type.Object(pick(commonConfig, [
  ...rootKeys.results, ...rootKeys.webhooks, ...rootKeys.partners,
]))

/** Adds the commands for root keys and the keys of organizations. */
export function addEncryptionKeys (program: AdminCommand, context: Context): void {
  const keys = program.command('keys').description('root keys and keys of organizations, which ' +
    'wrap all others')
  const add = (
    name: 'list' | 'rewrap', description: string,
    report: (deps: RotationDeps) => Promise<KeyReport & { readonly damaged?: readonly string[] }>
  ) => keys.command(name).description(description)
    .action(runAndPrint(context, async ({ env }) => {
      const settings = loadConfig(config, env)
      const keyReport = await withStores(env, stores =>
        report(rotationDeps(stores, connectAllKeys(stores.redis, settings))))
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
