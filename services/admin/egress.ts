import Type from 'typebox'
import { loadConfig, pick } from '../runtime/platform/config.ts'
import type { Paint } from '../runtime/platform/text-table.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { verifyConfig } from '../verify/config.ts'
import { DnsRecords } from '../verify/mailboxes/dns-records.ts'
import {
  EgressChecks, type EgressFinding, type EgressReport,
} from '../verify/mailboxes/egress-check.ts'
import { createEgress, describedEgresses } from '../verify/mailboxes/egress.ts'
import { type AdminCommand, type Context, runAndPrint } from './command-line.ts'

type Options = { readonly to?: string }

const HELP = `
Reads the settings of verify (SMTP_EGRESS or SMTP_HELO, SMTP_SENDER and SMTP_PROXY; DNS_SERVERS,
SMTP_DNSBL_ZONES) from the environment: run it where verify runs. With --to it also connects to a
mail server by each address, sends EHLO and QUIT, and learns which address that server sees. It
sends no mail. The exit code is 1 if there is a fault. deploy/docs/mailboxes.md says how to correct
it.`

const config = Type.Object(pick(verifyConfig.properties, [
  'SMTP_EGRESS', 'SMTP_HELO', 'SMTP_SENDER', 'SMTP_PROXY', 'SMTP_PORT', 'SMTP_DNSBL_ZONES',
  'SMTP_CONNECT_TIMEOUT_MS', 'SMTP_GREETING_TIMEOUT_MS', 'DNS_SERVERS', 'DNS_TIMEOUT_MS',
]))

/** Adds `egress`. */
export function addEgress (program: AdminCommand, context: Context): void {
  program.command('egress')
    .description('check what mail servers see of the addresses that mailboxes are asked from')
    .reads()
    .option('--to <host>', 'also connect to this mail server, or to that of a domain')
    .addHelpText('after', HELP)
    .example()
    .example('--to example.com', 'with a domain of your own')
    .action(runAndPrint<Options>(context, async ({ env, options: { to } }, paint) => {
      const settings = loadConfig(config, env)
      const { SMTP_PORT: port, SMTP_CONNECT_TIMEOUT_MS: connectMs } = settings
      const all = describedEgresses(settings)
      if (all.length === 0) {
        throw new UsageError('There is no egress: set SMTP_EGRESS or SMTP_HELO, as for verify.')
      }
      const checks = new EgressChecks({
        dns: new DnsRecords({
          servers: settings.DNS_SERVERS, timeoutMs: settings.DNS_TIMEOUT_MS,
        }),
        blockLists: settings.SMTP_DNSBL_ZONES,
      })
      const egresses: EgressReport[] = []
      for (const described of all) {
        const egress = createEgress(described, { port, timeoutMs: connectMs })
        const connection = to !== undefined &&
          { egress, host: to, timeoutMs: settings.SMTP_GREETING_TIMEOUT_MS }
        egresses.push(await checks.check(described, connection ? { connection } : {}))
      }
      return {
        data: { egresses },
        text: egresses.map(report => reportText(report, paint)).join('\n\n'),
        isUndone: egresses.some(({ findings }) => findings.some(({ level }) => level === 'fault')),
      }
    }))
}

const LEVELS: Readonly<Record<EgressFinding['level'], Parameters<Paint>>> = {
  good: ['green', 'good'],
  advice: ['yellow', 'advice'],
  unknown: ['yellow', 'unknown'],
  fault: ['red', 'FAULT'],
}

const LEVEL_WIDTH = 9
const CHECK_WIDTH = 14

function reportText ({ name, helo, sender, findings }: EgressReport, paint: Paint): string {
  const lines = findings.flatMap(({ check, level, text, todo }) => {
    const [style, word] = LEVELS[level]
    const line = `  ${paint(style, word.padEnd(LEVEL_WIDTH))}${check.padEnd(CHECK_WIDTH)}${text}`
    return todo === undefined
      ? [line]
      : [line, `${' '.repeat(2 + LEVEL_WIDTH + CHECK_WIDTH)}${todo}`]
  })
  const from = sender === '' ? 'the null sender' : sender
  return [`${paint('bold', name)}  ${helo}, ${from}`, ...lines].join('\n')
}
