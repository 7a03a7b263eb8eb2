import { Command } from 'commander'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse } from 'csv-parse/sync'
import { createClient, type Client } from '../services/client/client.ts'
import { verifyAndShow, type Show } from './demonstration.ts'
import { makeSecure } from './local/access.ts'
import { runInForeground, type Foreground } from './local/launcher/foreground.ts'
import { refuseSecretsOf } from './local/launcher/secrets.ts'
import { processesOption, type Processes } from './local/launcher/layout.ts'

const { once, data, secure, processes } = new Command('start')
  .description('Brings up the stack and every service, verifies the sample contacts through the ' +
    'REST interface and shows what came of them, then keeps serving until Ctrl-C.')
  .option('--once', 'end after the sample contacts; exits with 1 on any failure')
  .addOption(processesOption())
  .option('--data <folder>', 'folder for data, logs and state', '.local')
  .option('--secure', 'with TLS, users and passwords everywhere; a new folder stays like this')
  .parse()
  .opts<{ once?: boolean, data: string, secure?: boolean, processes?: string }>()

const say: Show = line => console.log(line)

/** The sample: valid and invalid phone numbers of many countries, and e-mail addresses. */
function sample (name: 'phones' | 'emails'): readonly string[] {
  const text = readFileSync(new URL(`sample/${name}.csv`, import.meta.url))
  return parse(text, { from_line: 2, relax_quotes: false }).map((cells: string[]) => cells[0] ?? '')
}

async function verifySample (client: Client): Promise<void> {
  await verifyAndShow(client, {
    service: 'phone-validation', inputs: sample('phones'), countryCode: 'US',
  }, say)
  await verifyAndShow(client, { service: 'email-validation', inputs: sample('emails') }, say)
}

async function begin (): Promise<Foreground> {
  refuseSecretsOf(process.env, resolve(data))
  if (secure === true) makeSecure(resolve(data))
  const wanted = processes === undefined ? undefined : Number(processes) as Processes
  return await runInForeground(resolve(data), wanted, say)
}

const stack = await begin().catch((error: unknown) => {
  console.error(`start: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
})
try {
  const { baseUrl, keys, pageUrl, orgId } = stack.state
  await verifySample(createClient({ baseUrl, apiKey: keys.live }))
  if (once !== true) {
    say(`\nserving at ${baseUrl} (keys and addresses: ${resolve(data)}/stack.json)`)
    say(`workspace page at ${pageUrl}, signed in to by a link that this makes:`)
    say(`  npm run admin -- sign-in --org ${orgId}`)
    say('press Ctrl-C to end')
    await stack.untilInterrupted
  }
} catch (error) {
  console.error(`start: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
} finally {
  await stack.end()
}
process.exit()
