import type { AdminCommand, Context } from '../../services/admin/command-line.ts'
import type { WorkspaceDeps } from '../../services/admin/deps.ts'
import { createAdminProgram } from '../../services/admin/program.ts'

/** The commands of a program that do something themselves. */
export function leavesOf (program: AdminCommand): readonly AdminCommand[] {
  const commands = program.commands as readonly AdminCommand[]
  return commands.length === 0 ? [program] : commands.flatMap(leavesOf)
}

/** The help of a command, and the words that its examples add to those of the command. */
export function helpOf (command: AdminCommand) {
  let help = ''
  command.configureOutput({ writeOut: text => { help += text } }).outputHelp()
  const line = new RegExp(`^  npm run admin -- ${command.words}(?: (\\S.*?))?(?: {2}.*)?$`, 'gm')
  return { help, examples: [...help.matchAll(line)].map(([, words = '']) => words) }
}

/** What a command prints, on a folder without a stack unless `--data` names another. */
export async function runCommand (
  words: string | readonly string[], replaced: Partial<Context> = {}
): Promise<string> {
  const lines: string[] = []
  const given = typeof words === 'string' ? words.split(' ') : words
  await createAdminProgram({ print: line => { lines.push(line) }, ...replaced })
    .parseAsync(['--data', '/none', ...given], { from: 'user' })
  return lines.join('\n')
}

/** Opens these dependencies for every task. Changes count as shipped unless they say otherwise. */
export const openOn = (deps: object): Context['open'] => async (_env, work) =>
  await work({ accounts: { areShipped: async () => true }, ...deps } as unknown as WorkspaceDeps)

/**
 * A command on these dependencies: takes its options by their names in code, and resolves with what
 * it prints as JSON.
 */
export const commandOn = (words: string) => async (
  deps: WorkspaceDeps, options: Readonly<Record<string, string>>
): Promise<Readonly<Record<string, unknown>>> => {
  const given = Object.entries(options).map(([name, value]) =>
    `--${name.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}=${value}`)
  const accounts = { areShipped: async () => true }
  return JSON.parse(await runCommand(
    ['--json', ...words.split(' '), ...given], { open: openOn({ ...deps, accounts }) }))
}
