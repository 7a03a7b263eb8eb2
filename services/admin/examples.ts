import type { Command } from 'commander'
import { wordsOf } from '../access-log/commands.ts'

/** The arguments of an example for each command. */
const EXAMPLES: Readonly<Record<string, string>> = {
  'org create': '--name "Acme Inc."',
  'org erase': '--org org_1',
  'org list': '--json',
  'person add': '--org org_1 --email ann@example.com --role owner',
  'person list': '--org org_1',
  'person change': '--org org_1 --email ann@example.com --role finance',
  'person sign-out': '--org org_1 --email ann@example.com',
  'person remove': '--org org_1 --email ann@example.com',
  'key create': '--org org_1 --name "nightly import" --expires 2030-01-31T12:00:00Z',
  'key list': '--org org_1',
  'key revoke': '--org org_1 --key key_0123456789abcdef',
  'key roll': '--org org_1 --key key_0123456789abcdef --grace-hours 48',
  topup: '--org org_1 --usd 250 --id invoice-2030-17',
  adjust: '--org org_1 --micros -2000 --reason "charged twice"',
  thaw: '--org org_1 --mode live',
  balance: '--org org_1',
  policy: '--org org_1 --freshness-days 30 --key-days default',
  'webhook-secret show': '--org org_1',
  'webhook-secret rotate': '--org org_1',
  'webhook-key show': '--org org_1',
  'webhook-key rotate': '--org org_1',
  'webhook-endpoint create':
    '--org org_1 --url https://hooks.example.com/in --events job.completed',
  'webhook-endpoint list': '--org org_1 --mode test',
  'webhook-endpoint disable': '--org org_1 --endpoint we_1',
  'webhook-endpoint enable': '--org org_1 --endpoint we_1',
  'webhook-endpoint rotate': '--org org_1 --endpoint we_1',
  'webhook-endpoint delete': '--org org_1 --endpoint we_1',
  'partner create': '--org org_1 --name acme --partitions 4',
  'partner list': '--org org_1',
  'partner rotate': '--name acme --grace-hours 24',
  'partner revoke': '--name acme',
  audit: '--full',
  'access-log': '--org org_1 --since 2030-01-01T00:00:00Z > access-log.csv',
  'job erase': '--org org_1 --job job_1,job_2',
  'keys list': '--json',
  'keys rewrap': '',
  'keys rotate': '--org org_1',
  'sign-in': '--org org_1',
}

/** Adds its example to the help of each command. */
export function addExamples (program: Command): void {
  for (const command of program.commands) {
    const words = wordsOf(command)
    const example = EXAMPLES[words]
    if (example !== undefined) {
      const line = `npm run workspace -- ${words} ${example}`.trimEnd()
      command.addHelpText('after', `\nExample:\n  ${line}`)
    }
    addExamples(command)
  }
}
