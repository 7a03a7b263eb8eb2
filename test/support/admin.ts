import type { AdminCommand } from '../../services/admin/admin-command.ts'
import type { WorkspaceDeps } from '../../services/admin/deps.ts'
import { createAdminProgram } from '../../services/admin/program.ts'

/** The commands of a program that do something themselves. */
export function leavesOf (program: AdminCommand): readonly AdminCommand[] {
  const commands = program.commands as readonly AdminCommand[]
  return commands.length === 0 ? [program] : commands.flatMap(leavesOf)
}

/**
 * A command on these dependencies: takes its options by their names in code, and resolves with what
 * it prints as JSON. Its changes count as shipped.
 */
export const commandOn = (words: string) => async (
  deps: WorkspaceDeps, options: Readonly<Record<string, string>>
): Promise<Readonly<Record<string, unknown>>> => {
  const lines: string[] = []
  const given = Object.entries(options).map(([name, value]) =>
    `--${name.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}=${value}`)
  await createAdminProgram({
    print: line => { lines.push(line) },
    open: async (_env, work) => await work(
      { ...deps, accounts: { areShipped: async () => true } } as unknown as WorkspaceDeps),
  }).parseAsync(['--json', '--data', '/none', ...words.split(' '), ...given], { from: 'user' })
  return JSON.parse(lines.join('\n'))
}
