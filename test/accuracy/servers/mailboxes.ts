import { setTimeout as sleep } from 'node:timers/promises'
import type { Say } from '../../../deploy/local/parts.ts'
import { freePort } from '../../../deploy/local/ports.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { verifyConfig } from '../../../services/verify/config.ts'
import type { Provider, ProviderVerdict } from '../../../services/verify/provider.ts'
import { startDnsServer, type Zone } from '../../support/mail/dns-server.ts'
import { startScripted } from '../../support/mail/mail-servers.ts'
import { createProviders } from '../../support/mail/smtp-probe.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'
import { measure, type AccuracyRow } from '../row.ts'
import { TRUTH_DOMAINS, type TruthDomain, type Want } from './domains.ts'
import { startHaraka } from './haraka.ts'
import { installHaraka, installMailServers } from './install.ts'
import { REAL_HOST, startRealServers } from './real.ts'
import { scriptOf } from './scripted.ts'

/** An address with the columns that its row must get. */
export type Mailbox = {
  readonly part: string
  readonly address: string
  readonly status: string
  /** Another status that is as true, of a product that asks or decides otherwise. */
  readonly alsoTrue: string | undefined
  readonly reason: string
  readonly columns: Readonly<Record<string, string>>
}

/** Every address of the suite with its truth. */
export const MAILBOXES: readonly Mailbox[] = TRUTH_DOMAINS.flatMap(it =>
  Object.entries(it.want).map(([local, want]) => mailboxOf(it, local, want)))

function mailboxOf (
  { part, domain, columns, exchanges, alsoTrue }: TruthDomain, local: string, want: Want
): Mailbox {
  const [text, more] = typeof want === 'string' ? [want, {}] : want
  const [status = '', reason = ''] = text.split(' ')
  const hasExchange = Object.keys(exchanges).length > 0
  const defaults = {
    disposable: 'false',
    free: 'false',
    role: 'false',
    ...(hasExchange ? { mx_found: 'true' } : {}),
  }
  return {
    part,
    address: `${local}@${domain}`,
    status,
    alsoTrue: alsoTrue?.[local],
    reason,
    columns: { ...defaults, ...columns, ...more },
  }
}

/** Greylisting of the suite ends after 3 seconds. */
export const GREYLIST_SECONDS = 4
/** As the stage does, rows are checked again that may get a better verdict. */
export const MAX_CHECKS = 3
/** The name that mail servers are greeted with. */
export const HELO = 'probe.verify-mailboxes.org'
const CALL_MS = 300_000

/** How often rows that must have the status `want` got `got`: `matrix[want][got]`. */
export type StatusMatrix = Readonly<Record<string, Readonly<Record<string, number>>>>

export type MailboxFigures = {
  readonly rows: readonly AccuracyRow[]
  readonly matrix: StatusMatrix
  /** The status of each address; none if it had no verdict. */
  readonly statuses: ReadonlyMap<string, string>
}

/**
 * Asks the mail servers of the suite for every address, by the provider `smtp-probe` as its
 * settings make it, with sockets and DNS. A figure for each kind of server.
 */
export async function measureMailboxes (say: Say): Promise<MailboxFigures> {
  const verdicts = await withMailServers(say, {}, async ({ dnsAddress, port }) =>
    await checkAll(createProvider(dnsAddress, port), MAILBOXES.map(({ address }) => address)))
  const rows = [...Map.groupBy(MAILBOXES, ({ part }) => part)].map(([part, boxes]) =>
    measure({ suite: 'mailboxes', part }, boxes, box => judge(box, verdicts.get(box.address))))
  const statuses = new Map([...verdicts].map(([address, { status }]) => [address, status]))
  return { rows, matrix: countStatuses(statuses), statuses }
}

/** The resolver of the suite as host:port, and the port of its mail servers. */
type MailServers = { readonly dnsAddress: string, readonly port: number }

/**
 * Calls `ask` while the servers of the suite run, without anything they remember of earlier calls.
 * Their resolver listens on `dns`, or else on a free port.
 * @throws Error if a server does not start, or got a command that checks never send.
 */
export async function withMailServers<T> (
  say: Say, dns: { readonly host?: string, readonly port?: number },
  ask: (servers: MailServers) => Promise<T>
): Promise<T> {
  const home = await installMailServers(say)
  const haraka = await installHaraka(say)
  const stops: (() => Promise<unknown>)[] = []
  try {
    const port = await freePort()
    stops.push((await startRealServers({ home, port })).stop)
    stops.push((await startHaraka({ home: haraka, port })).stop)
    const { zones, heard } = await startProviders(port, stops)
    const { address, stop } = await startDnsServer(zones, dns)
    stops.push(stop)
    const result = await ask({ dnsAddress: address, port })
    const forbidden = heard.filter(line => /^(?:DATA|VRFY)\b/i.test(line))
    if (forbidden.length > 0) throw new Error(`a check sent ${forbidden.join(', ')}`)
    return result
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

/** Starts the scripted servers; the zones lead to all servers. */
async function startProviders (port: number, stops: (() => Promise<unknown>)[]) {
  const zones: Record<string, Zone> = {}
  const heard: string[] = []
  let last = 0
  for (const { domain, exchanges, zone } of TRUTH_DOMAINS) {
    const hosts = Object.entries(exchanges)
    if (zone !== null) {
      zones[domain] = zone ?? { mx: hosts.map(([name], index) => [10 + index, name] as const) }
    }
    for (const [name, server] of hosts) {
      const host = typeof server === 'number' ? REAL_HOST(server) : `127.77.1.${++last}`
      zones[name] = { a: [host] }
      if (typeof server === 'number' || server === 'closed') continue
      stops.push((await startScripted(scriptOf(server), heard, { host, port })).stop)
    }
  }
  return { zones, heard }
}

function createProvider (dnsAddress: string, port: number): Provider {
  const config = loadConfig(verifyConfig, {
    ...STAGE_ENVIRONMENT,
    DNS_SERVERS: dnsAddress,
    DNS_TIMEOUT_MS: '10000',
    SMTP_HELO: HELO,
    SMTP_PORT: String(port),
    SMTP_ALLOW_PRIVATE: 'true',
    SMTP_CONCURRENCY: '10',
    SMTP_PER_MINUTE: '1000',
    SMTP_CONNECTIONS: '128',
    SMTP_FIRST_TIMEOUT_MS: String(CALL_MS),
    SMTP_LATER_TIMEOUT_MS: String(CALL_MS),
    SMTP_REST_SECONDS: String(GREYLIST_SECONDS),
  })
  const provider = createProviders(config)['smtp-probe']?.()
  if (provider === undefined) throw new Error('there is no provider smtp-probe')
  return provider
}

async function checkAll (
  provider: Provider, addresses: readonly string[]
): Promise<ReadonlyMap<string, ProviderVerdict>> {
  const verdicts = new Map<string, ProviderVerdict>()
  let rows = addresses.map((canonical, row) => ({ row, canonical }))
  for (let check = 0; check < MAX_CHECKS && rows.length > 0; check++) {
    if (check > 0) await sleep(GREYLIST_SECONDS * 1_000)
    const answers = await provider.check(rows, {
      service: 'email-validation',
      mode: 'live',
      signal: new AbortController().signal,
      deadlineMs: Date.now() + CALL_MS,
      isFirst: check === 0,
    })
    for (const { row, verdict } of answers) verdicts.set(addresses[row] ?? '', verdict)
    const again = new Set(answers.filter(({ retry }) => retry).map(({ row }) => row))
    rows = rows.filter(({ row }) => again.has(row))
  }
  return verdicts
}

const STATUSES = ['valid', 'invalid', 'risky', 'unknown'] as const

function countStatuses (statuses: ReadonlyMap<string, string>): StatusMatrix {
  const count = (want: string, got: string) => MAILBOXES.filter(({ status, address }) =>
    status === want && (statuses.get(address) ?? 'unknown') === got).length
  return Object.fromEntries(STATUSES.map(want =>
    [want, Object.fromEntries(STATUSES.map(got => [got, count(want, got)]))]))
}

function judge (box: Mailbox, verdict: ProviderVerdict | undefined) {
  if (verdict === undefined) return { is: 'missed', case: `${box.address}: no verdict` } as const
  const { status, reason, fields } = verdict
  const wrongColumns = Object.entries(box.columns).filter(([name, want]) => {
    const got = fields[name]
    // Names are made up only for mailboxes that are accepted.
    if (name === 'catch_all' && got === undefined) return status === 'valid'
    return got !== want
  })
  if (status === box.status && reason === box.reason && wrongColumns.length === 0) {
    return { is: 'right' } as const
  }
  const columns = wrongColumns.map(([name]) => `, ${name} ${fields[name] ?? 'blank'}`).join('')
  return {
    is: status === 'unknown' ? 'missed' : 'wrong',
    case: `${box.address}: ${status} ${reason}${columns} instead of ${box.status} ${box.reason}`,
  } as const
}
