import { Command } from 'commander'
import { readFileSync } from 'node:fs'
import { createClient } from '../services/client/client.ts'
import { verifyAndShow } from './demonstration.ts'
import type { StackState } from './local/launcher/state.ts'

const { data } = new Command('smoke')
  .description('Sends one small job through the running stack and checks that rows and money add ' +
    'up. Needs "npm run up" first.')
  .option('--data <folder>', 'folder that was given to "up"', '.local')
  .parse()
  .opts<{ data: string }>()

function readState (): StackState {
  try {
    return JSON.parse(readFileSync(`${data}/stack.json`, 'utf8'))
  } catch {
    throw new Error(`there is no ${data}/stack.json: start the stack with "npm run up" first`)
  }
}

try {
  const { baseUrl, keys } = readState()
  const inputs = ['+12127365000', '(212) 736-5000', 'call me', '+442079460958']
  await verifyAndShow(createClient({ baseUrl, apiKey: keys.live }), {
    service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true,
  }, line => console.log(line))
  console.log('smoke: all well')
} catch (error) {
  console.error(`smoke: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
