import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Say } from '../../../deploy/local/parts.ts'
import { loadConfig } from '../../../services/platform/config.ts'
import { verifyConfig } from '../../../services/verify/config.ts'
import { factoriesOf } from '../../../services/verify/provider-factories.ts'
import type { Provider, ProviderVerdict } from '../../../services/verify/provider.ts'
import { startDnsServer, type Zone } from '../../support/dns-server.ts'
import { STAGE_ENVIRONMENT } from '../../support/stage-environment.ts'
import { measure, type AccuracyRow } from '../row.ts'
import { TRUTH_DOMAINS, type TruthDomain, type Want } from './domains.ts'
import { installMailServers } from './install.ts'
import { REAL_HOST, startRealServers } from './real.ts'
import { startScriptedServer, type Script } from './scripted.ts'

/** An address with the columns that its row must get. */
type Mailbox = {
  readonly part: string
  readonly address: string
  readonly status: string
  readonly reason: string
  readonly columns: Readonly<Record<string, string>>
}

/** Every address of the suite with its truth. */
export const MAILBOXES: readonly Mailbox[] = TRUTH_DOMAINS.flatMap(it =>
  Object.entries(it.want).map(([local, want]) => mailboxOf(it, local, want)))

function mailboxOf (
  { part, domain, columns, exchanges }: TruthDomain, local: string, want: Want
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
    reason,
    columns: { ...defaults, ...columns, ...more },
  }
}

/** Greylisting of the suite ends after 3 seconds. */
const GREYLIST_SECONDS = 4
/** As the stage does, rows are checked again that may get a better verdict. */
const MAX_CHECKS = 3
const CALL_MS = 300_000

/** How often rows that must have the status `want` got `got`: `matrix[want][got]`. */
export type StatusMatrix = Readonly<Record<string, Readonly<Record<string, number>>>>

export type MailboxFigures = {
  readonly rows: readonly AccuracyRow[]
  readonly matrix: StatusMatrix
}

/**
 * Asks the mail servers of the suite for every address, by the provider `smtp-probe` as its
 * settings make it, with sockets and DNS. A figure for each kind of server.
 */
export async function measureMailboxes (say: Say): Promise<MailboxFigures> {
  const home = await installMailServers(say)
  const stops: (() => Promise<unknown>)[] = []
  try {
    const port = await freePort()
    stops.push((await startRealServers({ home, port })).stop)
    const { zones, scripted } = await startScripted(port, stops)
    const dns = await startDnsServer(zones)
    stops.push(dns.stop)
    const provider = createProvider(dns.address, port)
    const verdicts = await checkAll(provider, MAILBOXES.map(({ address }) => address))
    const forbidden = scripted.flatMap(server => server.forbidden)
    if (forbidden.length > 0) throw new Error(`the probe sent ${forbidden.join(', ')}`)
    const rows = [...Map.groupBy(MAILBOXES, ({ part }) => part)].map(([part, boxes]) =>
      measure({ suite: 'mailboxes', part }, boxes, box => judge(box, verdicts.get(box.address))))
    return { rows, matrix: countStatuses(verdicts) }
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

/** Starts the scripted servers; the zones lead to all servers. */
async function startScripted (port: number, stops: (() => Promise<unknown>)[]) {
  const zones: Record<string, Zone> = {}
  const scripted = []
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
      const running = await startScriptedServer(server satisfies Script, { host, port })
      scripted.push(running)
      stops.push(running.stop)
    }
  }
  return { zones, scripted }
}

function createProvider (dnsAddress: string, port: number): Provider {
  const config = loadConfig(verifyConfig, {
    ...STAGE_ENVIRONMENT,
    DNS_SERVERS: dnsAddress,
    DNS_TIMEOUT_MS: '10000',
    SMTP_HELO: 'probe.verify-mailboxes.org',
    SMTP_PORT: String(port),
    SMTP_ALLOW_PRIVATE: 'true',
    SMTP_CONCURRENCY: '10',
    SMTP_PER_MINUTE: '1000',
    SMTP_CONNECTIONS: '128',
    SMTP_GREYLIST_SECONDS: String(GREYLIST_SECONDS),
    SMTP_REST_SECONDS: String(GREYLIST_SECONDS),
  })
  const provider = factoriesOf(config)['smtp-probe']?.()
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

function countStatuses (verdicts: ReadonlyMap<string, ProviderVerdict>): StatusMatrix {
  const count = (want: string, got: string) => MAILBOXES.filter(({ status, address }) =>
    status === want && (verdicts.get(address)?.status ?? 'unknown') === got).length
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

/** A port that is free on every address of this machine now. */
async function freePort (): Promise<number> {
  const server = createServer().listen(0, '0.0.0.0')
  await once(server, 'listening')
  const { port } = server.address() as { readonly port: number }
  server.close()
  await once(server, 'close')
  return port
}
