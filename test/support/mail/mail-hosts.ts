import { LRUCache } from 'lru-cache'
import { onTestFinished } from 'vitest'
import { type Connect, createEgressPool } from '../../../services/verify/mailboxes/egress.ts'
import { MailHosts, type MailHostsOptions } from '../../../services/verify/mailboxes/hosts.ts'
import type { Mailbox } from '../../../services/verify/mailboxes/replies.ts'
import type { HostMemory, SessionReport } from '../../../services/verify/mailboxes/memory.ts'
import { type MailServer, startMailServers } from './mail-servers.ts'

export const NO_MAILBOX = '550 5.1.1 No such user'
export const PIPELINING = '250-hello\r\n250 PIPELINING'

/** So many addresses of a domain. */
export const people = (count: number, domain = 'firm.org') =>
  Array.from({ length: count }, (_, index) => `p${index}@${domain}`)

/** A memory that knows this of every exchange. */
export const knowing = (
  state: Partial<Awaited<ReturnType<HostMemory['exchange']>>>
): Partial<HostMemory> => ({
  exchange: async () => ({
    limit: undefined, restMs: 0, why: undefined, acceptsAny: false, hasAccepted: false, ...state,
  }),
})

/** The time of a session. */
export const SESSION_MS = 300_000

/** Mail hosts with an open memory. However slow the machine is, no session ends by its time. */
export const createMailHosts = (
  options: Pick<MailHostsOptions, 'pool'> & Partial<MailHostsOptions>
) => new MailHosts({
  memory: createOpenMemory(),
  limits: { sessions: 1, sessionsAMinute: 1_000, ratePercent: 100 },
  connections: 64,
  startTls: false,
  replyTimeoutMs: 120_000,
  greetingTimeoutMs: options.replyTimeoutMs ?? 120_000,
  sessionTimeoutMs: SESSION_MS,
  idleMs: 5,
  restMs: 60_000,
  ...options,
})

type Settings = Partial<Omit<MailHostsOptions, 'memory' | 'pool'>> & {
  readonly memory?: Partial<HostMemory>
  readonly helo?: string
  /** How egresses connect, by their names; the first is the only one by default. */
  readonly egresses?: Readonly<Record<string, (usual: Connect) => Connect>>
}

/** Mail hosts and servers by the names of exchanges until the test ends, and questions for them. */
export async function startMailHosts (
  scripts: Readonly<Record<string, Extract<MailServer, { script: unknown }>['script']>>,
  {
    memory: changed = {}, helo = 'probe.verify.org', egresses = { probe: usual => usual },
    ...settings
  }: Settings = {}
) {
  const mail = await startMailServers(Object.fromEntries(
    Object.entries(scripts).map(([exchange, script]) => [exchange, { script }])))
  onTestFinished(() => mail.stop())
  const reports: SessionReport[] = []
  const memory = createOpenMemory()
  const hosts = createMailHosts({
    memory: {
      ...memory,
      end: async (party, session, report) => {
        reports.push(report)
        return await memory.end(party, session, report)
      },
      ...changed,
    },
    pool: createEgressPool(Object.entries(egresses).map(([name, connectOf]) => ({
      name,
      caller: { helo, sender: '' },
      connect: connectOf(mail.connect),
      isDown: () => false,
    }))),
    ...settings,
  })
  const ask = async (
    address: string, exchange = `mx.${address.slice(address.indexOf('@') + 1)}`,
    { tenant = 'org:live', signal = new AbortController().signal } = {}
  ) => await hosts.ask(address, {
    tenant, hosts: [{ name: exchange, addresses: mail.zones[exchange]?.a ?? [exchange] }], signal,
  })
  const heard = (exchange: string, verb: string) =>
    (mail.heard.get(exchange) ?? []).filter(line => line.startsWith(verb))
  /** As the memory knows the server of an exchange whose owner is not listed. */
  const server = (name: string) => ({ name, id: mail.zones[name]?.a?.[0] ?? '' })
  return { ask, heard, hosts, reports, memory, server }
}

/** A memory of one test without limits: what the real one limits is shown on a real Redis. */
export function createOpenMemory (): HostMemory {
  const rests = new LRUCache<string, Mailbox>({ max: 1_000 })
  const accepting = new Set<string>()
  const catchAlls = new LRUCache<string, boolean>({ max: 1_000, ttl: 24 * 3_600_000 })
  const limits = new Map<string, number>()
  return {
    begin: async (_party, wanted) => ({ session: 'session', recipients: wanted }),
    more: async (_party, _session, wanted) => ({ recipients: wanted, waitMs: 0 }),
    end: async (_party, _session, { restMs = 0 }) => restMs,
    exchange: async ({ name, id }, egress) => ({
      limit: limits.get(name),
      restMs: rests.getRemainingTTL(`${id} ${egress}`),
      why: rests.get(`${id} ${egress}`),
      acceptsAny: false,
      hasAccepted: accepting.has(`${name} ${egress}`),
    }),
    note: async (name, { limit, accepted }) => {
      if (limit !== undefined) limits.set(name, limit)
      if (accepted !== undefined) accepting.add(`${name} ${accepted}`)
    },
    rest: async ({ id }, egress, { why, restMs }) => {
      rests.set(`${id} ${egress}`, why, { ttl: restMs })
    },
    catchAll: async (exchange, domain) => catchAlls.get(`${exchange} ${domain}`),
    rememberCatchAll: async (exchange, domain, isCatchAll) => {
      catchAlls.set(`${exchange} ${domain}`, isCatchAll)
    },
    owners: async () => [],
  }
}
