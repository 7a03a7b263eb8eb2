import type { Environment } from '../runtime/platform/command-environment.ts'
import type { AdminCommand } from './admin-command.ts'
import { callOf, runChange, type Context } from './command-line.ts'
import type { KeyReport } from './key-report.ts'
import type { RewrapReport } from './key-rotation.ts'
import { describeResult, organizationOf, printResult, type Task } from './options.ts'

type Report = KeyReport & Partial<Pick<RewrapReport, 'damaged'>>

/** Adds the commands for root keys and the keys of organizations. */
export function addEncryptionKeys (program: AdminCommand, context: Context): void {
  const keys = program.command('keys').description('root keys and keys of organizations, which ' +
    'wrap all others')
  const add = (
    name: 'list' | 'rewrap', description: string,
    report: (commands: typeof import('./key-commands.ts')) =>
    (env: Environment) => Promise<Report>
  ) => keys.command(name).description(description)
    .action(async (_options: object, command: AdminCommand) => {
      const { env, json } = callOf<object>(command)
      // Imported here because only these commands need every store of wrapped keys.
      const result = await report(await import('./key-commands.ts'))(env)
      command.result = describeResult({ id: activeRootKeys(result) })
      printResult(context.print, result, json)
      const { lacking, damaged = [] } = result
      for (const key of damaged) console.error(damageText(key))
      if (lacking.length + damaged.length > 0) process.exitCode = 1
    })
  add('list', 'show what each key wraps', ({ listEncryptionKeys }) => listEncryptionKeys)
    .reads()
    .example('--json')
  add('rewrap', 'wrap everything with the active root keys and the newest keys of organizations; ' +
    'delete replaced ones', ({ rewrapKeys }) => rewrapKeys)
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

/** The active root key of each class: `results:2 webhooks:2 partners:1`. */
function activeRootKeys ({ rootKeys }: KeyReport): string {
  return rootKeys.filter(({ isActive }) => isActive).map(root =>
    `${root.class}:${root.id}`).join(' ')
}

const damageText = (key: string) => `${key} is damaged: its bytes do not open, so what it wraps ` +
  'was left as it is. Restart every ledger, which restores the key from topic ' +
  'organization.keys, or put it back from a backup; then run "keys rewrap" again.'
