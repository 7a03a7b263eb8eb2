import { Command } from 'commander'
import { resolve } from 'node:path'
import { bringDown } from './local/launcher/client.ts'

const { data } = new Command('down')
  .description('Ends the services and the stack that "up" started and waits until they are ' +
    'gone. The data stays in the folder; delete it to start over.')
  .option('--data <folder>', 'folder that was given to "up"', '.local')
  .parse()
  .opts<{ data: string }>()

try {
  const ended = await bringDown(resolve(data), (line) => console.log(line))
  console.log(ended ? 'everything has ended' : 'nothing was running')
} catch (error) {
  console.error(`down: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
