import type { Command } from 'commander'
import { commandEnvironment } from './environment.ts'
import type { Stock } from './key-stock.ts'
import { show, type Print } from './show.ts'
import type { Options } from './tasks.ts'

type Global = { readonly json?: true, readonly data: string }

/** Commands for the keys that all others are wrapped by. */
export function addKeyRing (program: Command, print: Print): void {
  const keys = program.command('keys').description('keys of the ring, which wrap all others')
  const env = (command: Command) =>
    commandEnvironment(process.env, command.optsWithGlobals<Global>().data)
  const shown = (stock: Stock, command: Command) => {
    show(print, stock, command.optsWithGlobals<Global>().json === true)
    if (stock.lacking.length > 0) process.exitCode = 1
  }
  // Only these commands need every store that has keys, so only they load them.
  const commands = () => import('./key-command.ts')
  keys.command('list').description('show what each of them wraps')
    .action(async (_options: object, command: Command) => {
      const { listKeys } = await commands()
      shown(await listKeys(env(command)), command)
    })
  keys.command('rewrap').description('wrap everything by the active key')
    .action(async (_options: object, command: Command) => {
      const { rewrapKeys } = await commands()
      shown(await rewrapKeys(env(command)), command)
    })
}

/** The command that lets people into the workspace page. */
export function addSignIn (program: Command, print: Print): void {
  program.command('sign-in').description('make a link to sign in to the workspace page with')
    .option('--org <id>', 'organization whose people sign in')
    .option('--operator', 'for those who run the pipeline')
    .action(async (_options: object, command: Command) => {
      const { json, data, ...options } = command.optsWithGlobals<Global & Options>()
      const { makeSignInLink } = await import('./sign-in-command.ts')
      const link = await makeSignInLink(commandEnvironment(process.env, data), options)
      show(print, link, json === true)
    })
}
