import { type Policy, POLICY_RANGES } from '../accounts/organizations.ts'
import type { AdminCommand } from './admin-command.ts'
import {
  type Context, organizationToChange, organizationToRead, runChange, type Task,
} from './command-line.ts'

/** Adds `policy`. */
export function addPolicy (program: AdminCommand, context: Context): void {
  program.command('policy').description('show or set the policy of an organization; "default" ' +
    'resets a value to the configuration of the service')
    .records(options => POLICIES.some(name => options[name] !== undefined)
      ? { action: 'policy.changed' }
      : null)
    .requiredOption('--org <id>', 'organization')
    .option('--freshness-days <days>', 'how long verified records count as fresh: 0 to 90 days')
    .option('--weight <number>', 'its share of busy stages, as a multiple of the usual share: ' +
      '1 to 100')
    .option('--active-jobs <number>', 'concurrent jobs with fresh rows, per mode')
    .option('--post-burst <number>', 'burst of POST requests, as LIMIT_POST_BURST')
    .option('--post-sustained <number>', 'sustained rate of POST requests, as ' +
      'LIMIT_POST_SUSTAINED')
    .option('--gets <number>', 'burst of GET requests, as LIMIT_GET')
    .option('--low-balance-micros <micros>', 'the event balance.low is sent when a job takes the ' +
      'available balance below it')
    .option('--key-days <days>', 'the longest lifetime of API keys made from now on')
    .example('--org org_1 --freshness-days 30 --key-days default')
    .action(runChange(context, policy))
}

const POLICIES = Object.keys(POLICY_RANGES) as readonly (keyof Policy)[]

/** Sets the values that are passed, then returns the policy of the organization. */
const policy: Task = async (deps, options) => {
  const change = POLICIES.flatMap(name => {
    const text = options[name]
    return text === undefined ? [] : [[name, parsePolicyValue(text)] as const]
  })
  const isRead = change.length === 0
  const orgId = await (isRead ? organizationToRead : organizationToChange)(deps, options)
  if (!isRead) await deps.organizations.setPolicy(orgId, Object.fromEntries(change))
  const current = (await deps.organizations.find(orgId))?.policy
  const values = POLICIES.map(name => [name, current?.[name] ?? 'default'] as const)
  return { orgId, ...Object.fromEntries(values) }
}

/** NaN for a text that is not a whole number; the range check then rejects it. */
function parsePolicyValue (text: string): number | 'default' {
  if (text === 'default') return text
  return /^\d+$/.test(text) ? Number(text) : NaN
}
