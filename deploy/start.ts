import { Command } from 'commander'
import { parse } from 'csv-parse/sync'
import { readFileSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Show, verifyAndShow } from './demonstration.ts'
import { makeSecure } from './local/access.ts'
import { bringUp } from './local/launcher/client.ts'
import { becomeOnly, command, serveControl, toSocketPath } from './local/launcher/control.ts'
import { type Processes, processesOption, SERVICES } from './local/launcher/layout.ts'
import { prepareStack } from './local/launcher/prepare.ts'
import { refuseSecretsOf } from './local/launcher/secrets.ts'
import { readJson } from './local/json-file.ts'
import type { StackState } from './local/launcher/state.ts'
import { createSupervisor } from './local/launcher/supervisor.ts'
import { type Client, createClient } from '../services/client/client.ts'

const { once, data, secure, processes } = new Command('start')
  .description('Brings up the stack and every service, verifies the sample contacts through the ' +
    'REST interface and shows what came of them, then keeps serving until Ctrl-C.')
  .option('--once', 'end after the sample contacts; exits with 1 on any failure')
  .addOption(processesOption())
  .option('--data <folder>', 'folder for data, logs and state', '.local')
  .option('--secure', 'with TLS, users and passwords everywhere; a new folder stays like this')
  .parse()
  .opts<{ once?: boolean, data: string, secure?: boolean, processes?: string }>()

const dataDir = resolve(data)
const wanted = {
  processes: processes === undefined ? undefined : Number(processes) as Processes,
}
const say: Show = line => console.log(line)
/** Resolves at Ctrl-C or SIGTERM, and when another command has ended the stack. */
const interrupted = Promise.withResolvers<void>()

/**
 * Uses the stack that runs in the folder, or runs one inside this process. Resolves with what ends
 * it; a stack that ran before goes on.
 */
async function startStack (): Promise<() => Promise<void>> {
  refuseSecretsOf(process.env, dataDir)
  if (secure === true) makeSecure(dataDir)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.resolve())
  }
  if (readState() !== undefined && await command(dataDir, { name: 'up' }, () => {})) {
    say('using the stack that runs already')
    await bringUp(dataDir, wanted, say)
    return async () => {}
  }
  if (!await becomeOnly(dataDir)) {
    throw new Error(`another command is starting or running the stack in ${dataDir}`)
  }
  const supervisor = createSupervisor({ dataDir, stages: SERVICES, prepare: prepareStack })
  // Other commands reach this one as they reach a supervisor in the background.
  const control = await serveControl(dataDir, supervisor, interrupted.resolve)
  await supervisor.up(wanted, say)
  return async () => {
    control.close()
    rmSync(toSocketPath(dataDir), { force: true })
    say('ending the services and the stack')
    await supervisor.down()
  }
}

const readState = () => readJson<StackState>(`${dataDir}/stack.json`)

/** The sample: valid and invalid phone numbers of many countries, and e-mail addresses. */
function readSample (name: 'phones' | 'emails'): readonly string[] {
  const text = readFileSync(new URL(`sample/${name}.csv`, import.meta.url))
  return parse(text, { from_line: 2, relax_quotes: false }).map((cells: string[]) => cells[0] ?? '')
}

async function verifySample (client: Client): Promise<void> {
  await verifyAndShow(client, {
    service: 'phone-validation', inputs: readSample('phones'), countryCode: 'US',
  }, say)
  await verifyAndShow(client, { service: 'email-validation', inputs: readSample('emails') }, say)
}

const end = await startStack().catch((error: unknown) => {
  console.error(`start: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
})
try {
  const state = readState()
  if (state === undefined) throw new Error(`${dataDir}/stack.json can't be read`)
  const { baseUrl, keys, pageUrl, orgId } = state
  await verifySample(createClient({ baseUrl, apiKey: keys.live }))
  if (once !== true) {
    say(`\nserving at ${baseUrl} (keys and addresses: ${dataDir}/stack.json)`)
    say(`workspace page at ${pageUrl}, signed in to by a link that this makes:`)
    say(`  npm run admin -- sign-in --org ${orgId}`)
    say('press Ctrl-C to end')
    await interrupted.promise
  }
} catch (error) {
  console.error(`start: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
} finally {
  await end()
}
process.exit()
