import { Command } from 'commander'
import Type from 'typebox'
import { createClient } from '../services/client/client.ts'
import { loadConfig } from '../services/runtime/platform/config.ts'
import { verifyAndShow } from './demonstration.ts'
import { readJson } from './local/json-file.ts'
import type { StackState } from './local/launcher/state.ts'

/** Where the interface is, and a key; those of the local stack when left out. */
export const smokeConfig = Type.Object({
  API_URL: Type.Optional(Type.String({
    pattern: '^https?://.+', description: 'Base URL of the REST interface, ending in /api/v1.',
  })),
  API_KEY: Type.Optional(Type.String({
    secret: true,
    needs: ['API_URL'],
    description: 'A key of an organization; one of the sandbox costs nothing.',
  })),
})

/** A proxy that the interface trusts says so; this is one, like the workspace page. */
const overHttps: typeof fetch = (input, init) => fetch(input, {
  ...init, headers: { ...init?.headers, 'x-forwarded-proto': 'https' },
})

function connect (data: string) {
  const { API_URL: baseUrl, API_KEY: apiKey } = loadConfig(smokeConfig, process.env)
  if (baseUrl === undefined) {
    const state = readJson<StackState>(`${data}/stack.json`)
    if (state === undefined) {
      throw new Error(`there is no ${data}/stack.json: start the stack with "npm run up" first`)
    }
    return createClient({ baseUrl: state.baseUrl, apiKey: state.keys.live })
  }
  if (apiKey === undefined) {
    throw new Error('API_KEY is missing. Create a key of the sandbox: admin key create --mode test')
  }
  return createClient({ baseUrl, apiKey, fetch: overHttps })
}

if (import.meta.main) {
  const { data } = new Command('smoke')
    .description('Sends one small job through the running stack and checks that rows and money ' +
      'add up. Needs "npm run up" first, or API_URL and API_KEY.')
    .option('--data <folder>', 'folder that was given to "up"', '.local')
    .parse()
    .opts<{ data: string }>()
  try {
    const inputs = ['+12127365000', '(212) 736-5000', 'call me', '+442079460958']
    await verifyAndShow(connect(data), {
      service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true,
    }, line => console.log(line))
    console.log('smoke: all well')
  } catch (error) {
    console.error(`smoke: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  }
}
