import { Command } from 'commander'
import { addDead, type Print } from './dead/command.ts'

/** The command line of operators; `print` takes what it shows. */
export function createProgram (print: Print = console.log): Command {
  const program = new Command('ops')
    .description('What those do who run the system.')
    .configureHelp({ showGlobalOptions: true })
    .option('--json', 'show the answer as JSON')
    .option('--data <folder>', 'folder that was given to "up"', '.local')
  addDead(program, print)
  return program
}
