import type { Command } from 'commander'
import { commandEnvironment } from '../platform/command-environment.ts'
import type { Run } from './account-commands.ts'
import type { KeyReport } from './key-report.ts'
import type { RewrapReport } from './key-rotation.ts'
import { describeResult, type Print, printResult } from './options.ts'
import * as tasks from './tasks.ts'

type Report = KeyReport & Partial<Pick<RewrapReport, 'damaged'>>
type GlobalOptions = { readonly json?: true, readonly data: string }

/** Adds the commands for root keys and the keys of organizations. */
export function addEncryptionKeyCommands (
  program: Command, { print, change }: { readonly print: Print, readonly change: Run }
): void {
  const keys = program.command('keys').description('root keys and keys of organizations, which ' +
    'wrap all others')
  const add = (
    name: 'list' | 'rewrap', description: string,
    report: (commands: typeof import('./key-commands.ts')) =>
    (env: ReturnType<typeof commandEnvironment>) => Promise<Report>
  ) => keys.command(name).description(description)
    .action(async (_options: object, command: Command) => {
      const { json, data } = command.optsWithGlobals<GlobalOptions>()
      // Imported here because only these commands need every store of wrapped keys.
      const result = await report(await import('./key-commands.ts'))(
        commandEnvironment(process.env, data))
      describeResult(command, { id: activeRootKeys(result) })
      printResult(print, result, json === true)
      const { lacking, damaged = [] } = result
      for (const key of damaged) console.error(damageText(key))
      if (lacking.length + damaged.length > 0) process.exitCode = 1
    })
  add('list', 'show what each key wraps', ({ listEncryptionKeys }) => listEncryptionKeys)
  add('rewrap', 'wrap everything with the active root keys and the newest keys of organizations; ' +
    'delete replaced ones', ({ rewrapKeys }) => rewrapKeys)
  keys.command('rotate').description('create new keys of an organization; then run "keys rewrap"')
    .requiredOption('--org <id>', 'organization')
    .action(change(tasks.rotateOrganizationKeys))
}

/** The active root key of each class: `results:2 webhooks:2 partners:1`. */
function activeRootKeys ({ rootKeys }: KeyReport): string {
  return rootKeys.filter(({ isActive }) => isActive).map(root =>
    `${root.class}:${root.id}`).join(' ')
}

const damageText = (key: string) => `${key} is damaged: its bytes do not open, so what it wraps ` +
  'was left as it is. Restart every ledger, which restores the key from topic ' +
  'organization.keys, or put it back from a backup; then run "keys rewrap" again.'
