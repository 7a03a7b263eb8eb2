import { startDnsServer } from '../../support/mail/dns-server.ts'
import { policyAt } from '../../support/mail/owner-policies.ts'
import { type BenchStack, withServices } from '../services.ts'
import { seededRandom } from '../../support/random.ts'
import type { BenchContext } from '../run.ts'
import { usageSince, usagesOf } from '../usage.ts'
import {
  type HostWays, isFullMailbox, isMissing, type MailHostServers, startMailHosts,
} from './mail-hosts.ts'

/** Rates are ten times those of the policies, so that a list takes minutes instead of an hour. */
const RATE_PERCENT = 1_000
/** A process for each stage, so that the CPU of `verify` is known. */
const APART = 9
const SMALL_HOSTS = 200
const DOMAINS = 1_000
const GREYLIST_MS = 10_000
const LIMITS = { sessions: 2, sessionsAMinute: 60, ratePercent: RATE_PERCENT }

/** Three large owners with limits near those of their policies, and small hosts of all kinds. */
function listHosts (): readonly HostWays[] {
  const large = (owner: string, exchange: string, domains: readonly string[]): HostWays => {
    const { sessions, recipientsAMinute: { most } } =
      policyAt(domains[0] ?? '', exchange, LIMITS)
    return {
      owner,
      exchange,
      domains,
      sessions,
      // One of them allows less than its policy says.
      recipientsAMinute: owner === 'united-internet' ? 0.6 * most : 1.1 * most,
      recipientsASession: 100,
      pipelining: true,
    }
  }
  const small = Array.from({ length: SMALL_HOSTS }, (_, host): HostWays => ({
    owner: `host-${host}.net`,
    exchange: `mx.host-${host}.net`,
    domains: Array.from({ length: DOMAINS / SMALL_HOSTS }, (_unused, number) =>
      `firm-${host}-${number}.net`),
    sessions: 10,
    recipientsAMinute: Infinity,
    recipientsASession: host % 7 === 0 ? 5 : 100,
    ...host % 5 === 0 && { greylistMs: GREYLIST_MS },
    ...host % 11 === 0 && { catchAll: true },
    ...host % 13 === 0 && { tarpitMs: 300 },
    ...host % 17 === 0 && { failsEach: 9 },
    ...host % 2 === 0 && { pipelining: true },
  }))
  return [
    large('google', 'gmail-smtp-in.l.google.com', ['gmail.com']),
    large('microsoft-consumer', 'outlook-com.olc.protection.outlook.com', ['outlook.com']),
    large('united-internet', 'mx00.gmx.net', ['gmx.net']),
    ...small,
  ]
}

/** Seven of ten rows are at three large owners; one of ten does not exist, one of 50 is full. */
function addressesOf (rows: number): readonly string[] {
  const random = seededRandom(51)
  const below = (limit: number) => Math.floor(random() * limit)
  return Array.from({ length: rows }, (_, row) => {
    const kind = below(50)
    const share = below(20)
    const domain = share < 7
      ? 'gmail.com'
      : share < 11
        ? 'outlook.com'
        : share < 14
          ? 'gmx.net'
          : `firm-${below(SMALL_HOSTS)}-${below(DOMAINS / SMALL_HOSTS)}.net`
    return `person.${kind < 5 ? 'n' : kind === 5 ? 'f' : 'y'}${row}@${domain}`
  })
}

/**
 * Checks a list of mailboxes whose truth is known, with one and with ten processes of `verify`, at
 * mail servers on this machine that limit what they take as large hosts do.
 */
export async function measureMailboxes (
  stack: BenchStack,
  { rows, log, overrides }: Pick<BenchContext, 'rows' | 'log'> & {
    readonly overrides: Readonly<Record<string, string>>
  }
): Promise<{ readonly lists: readonly ListFigures[] }> {
  const ways = listHosts()
  const servers = await startMailHosts(ways)
  const dns = await startDnsServer(servers.zones)
  const lists: ListFigures[] = []
  try {
    for (const count of [1, 10]) {
      log(`mailboxes: ${rows} addresses, verify x ${count}`)
      const more = {
        ...overrides,
        PROVIDERS: JSON.stringify({ 'email-validation': ['smtp-probe'] }),
        DNS_SERVERS: dns.address,
        SMTP_HELO: 'probe.verify.org',
        SMTP_PORT: String(servers.port),
        SMTP_ALLOW_PRIVATE: 'true',
        SMTP_STARTTLS: 'false',
        SMTP_RATE_PERCENT: String(RATE_PERCENT),
        RETRY_DELAY_MS: '3000',
      }
      lists.push(await withServices(
        stack, { scale: { verify: count }, processes: APART, overrides: more },
        context => measureList({ ...context, rows, log }, { count, ways, servers })))
    }
    return { lists }
  } finally {
    await dns.stop()
    await servers.stop()
  }
}

type List = {
  readonly count: number
  readonly ways: readonly HostWays[]
  readonly servers: MailHostServers
}

type ListFigures = Awaited<ReturnType<typeof measureList>>

/** The figures of a list at one number of `verify` processes. */
async function measureList (
  { client, services, rows, log }: Pick<BenchContext, 'client' | 'services' | 'rows' | 'log'>,
  { count, ways, servers }: List
) {
  servers.reset()
  const inputs = addressesOf(rows)
  const verifiers = () => services.list().filter(({ name }) => name.startsWith('verify'))
  const before = usagesOf(verifiers())
  const startedMs = performance.now()
  const { id } = await client.createJob(
    { service: 'email-validation', inputs, forceFresh: true })
  let [saidMs, halfMs] = [startedMs, Infinity]
  await client.waitForEnd(id, {
    pollEveryMs: 1_000,
    timeoutMs: 4 * 3_600_000,
    onProgress: ({ progressPercent, waiting }) => {
      if (progressPercent >= 50) halfMs = Math.min(halfMs, performance.now())
      if (performance.now() - saidMs < 15_000) return
      saidMs = performance.now()
      log(`mailboxes: ${progressPercent} %, waiting: ${JSON.stringify(waiting)}`)
    },
  })
  const seconds = (performance.now() - startedMs) / 1_000
  const cpu = usageSince(before, usagesOf(verifiers()))
    .reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
  const statuses = await readStatuses(client, id)
  return {
    processes: count,
    rows,
    seconds,
    /** Until half of the rows had their verdicts. */
    halfSeconds: Math.min(seconds, (halfMs - startedMs) / 1_000),
    /** The time that the owners' limits alone take. */
    lowerBoundSeconds: Math.max(...ownersOf(inputs, ways).map(({ owner, rows: own }) =>
      60 * own / Math.min(policyAMinute(owner, ways),
        ways.find(it => it.owner === owner)?.recipientsAMinute ?? Infinity))),
    ...judgeAll(statuses, { inputs, ways }),
    cpuSecondsPer1000: 1_000 * cpu / rows,
    owners: ownersOf(inputs, ways).map(({ owner, rows: own }) => {
      const seen = servers.seen.get(owner)
      const host = ways.find(it => it.owner === owner)
      return {
        owner,
        rows: own,
        sessionsPer1000: 1_000 * (seen?.sessions ?? 0) / own,
        mostSessions: seen?.mostRunning ?? 0,
        policySessions: policyFor(host).sessions,
        mostAMinute: seen?.mostAMinute ?? 0,
        policyAMinute: policyAMinute(owner, ways),
        /** How often the owner said that there were too many. */
        refusals: seen?.refusals ?? 0,
      }
    }),
  }
}

const domainIn = (address: string) => address.slice(address.indexOf('@') + 1)

const policyFor = (host: HostWays | undefined) =>
  policyAt(host?.domains[0] ?? '', host?.exchange ?? '', LIMITS)
const policyAMinute = (owner: string, ways: readonly HostWays[]): number =>
  policyFor(ways.find(it => it.owner === owner)).recipientsAMinute.most

/** The owners with at least a hundredth of the rows. */
function ownersOf (inputs: readonly string[], ways: readonly HostWays[]) {
  const owners = new Map(ways.flatMap(({ owner, domains }) =>
    domains.map(domain => [domain, owner] as const)))
  const counts = new Map<string, number>()
  for (const input of inputs) {
    const owner = owners.get(domainIn(input)) ?? ''
    counts.set(owner, (counts.get(owner) ?? 0) + 1)
  }
  return [...counts].map(([owner, rows]) => ({ owner, rows }))
    .filter(({ rows }) => rows >= inputs.length / 100)
}

/** The verdicts of a job by address. */
async function readStatuses (
  client: BenchContext['client'], id: string
): Promise<ReadonlyMap<string, string>> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of await client.resultsFile(id)) {
    text += decoder.decode(chunk, { stream: true })
  }
  const [head = '', ...lines] = text.trimEnd().split('\r\n')
  const columns = head.split(',')
  const at = { input: columns.indexOf('input'), status: columns.indexOf('status') }
  return new Map(lines.map(line => {
    const cells = line.split(',')
    return [cells[at.input] ?? '', cells[at.status] ?? '']
  }))
}

type JudgedList = { readonly inputs: readonly string[], readonly ways: readonly HostWays[] }

/** Compares verdicts with the truth. */
function judgeAll (
  statuses: ReadonlyMap<string, string>, { inputs, ways }: JudgedList
) {
  const catchAlls = new Set(ways.flatMap(({ catchAll, domains }) => catchAll ? domains : []))
  const counts = { right: 0, falseInvalid: 0, falseValid: 0, unknown: 0 }
  for (const input of inputs) {
    const status = statuses.get(input) ?? 'unknown'
    const isCatchAll = catchAlls.has(domainIn(input))
    const expected = isCatchAll || isFullMailbox(input)
      ? 'risky'
      : isMissing(input) ? 'invalid' : 'valid'
    if (status === expected) counts.right += 1
    else if (status === 'unknown') counts.unknown += 1
    if (status === 'invalid' && expected !== 'invalid') counts.falseInvalid += 1
    if (status === 'valid' && expected !== 'valid') counts.falseValid += 1
  }
  const { right, ...others } = counts
  return { rightPercent: 100 * right / inputs.length, ...others }
}
