import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { MailHost } from '../mail-domain.ts'
import { createChannel } from './channel.ts'
import type { Connect } from './connect.ts'
import { askServer, type Caller, type ServerAnswer } from './dialog.ts'
import type { Meaning } from './meaning.ts'
import { SmtpFault, type SmtpFaultKind } from './reply.ts'
import { ownerOf, type Turns } from './turns.ts'
import { acceptsAnyone, tellsTheTruth } from './well-known.ts'

/** What its servers say of a mailbox; `late`: it was not its turn before the time was over. */
export type Mailbox =
  | Exclude<Meaning, 'limited'> | 'unreachable' | 'no_answer' | 'late'

export type Probed = {
  readonly mailbox: Mailbox
  /** Whether the domain takes mail for any name; undefined when nobody could tell. */
  readonly catchAll?: boolean | undefined
  /** No such test was made, as the domain is known to refuse names it does not have. */
  readonly trusted?: true
  /** Asking again in some minutes may tell more. */
  readonly again?: true
}

export type ProbeOptions = {
  readonly connect: Connect
  readonly turns: Turns
  readonly caller: Caller
  readonly secures: boolean
  readonly replyTimeoutMs: number
  /** Longest a row is worked on, all hosts and connections. */
  readonly rowTimeoutMs: number
  /** An address that was greylisted is not asked about sooner. */
  readonly greylistMs: number
  /** A host that blocks us or can't be reached is left alone for so long. */
  readonly restMs: number
  readonly catchAllMs: number
}

export type ProbeRequest = {
  readonly hosts: readonly MailHost[]
  /** Ends when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  readonly endsAtMs: number
}

export type Probe = (address: string, request: ProbeRequest) => Promise<Probed>

/** A domain may name many hosts; more than two make no answer more certain. */
export const MAX_HOSTS = 2
/** Less than this is too little for a conversation. */
const SHORTEST_MS = 1_000
const REMEMBERED = 100_000

type Memory = {
  readonly greylisted: LRUCache<string, true>
  readonly resting: LRUCache<string, Mailbox>
  readonly catchAll: LRUCache<string, boolean>
}

type Row = ProbeOptions & ProbeRequest & {
  readonly memory: Memory
  readonly address: string
  readonly domain: string
  readonly onReady?: () => void
}

/** Asks the mail servers of an address whether they have its mailbox, without sending anything. */
export function createProbe (options: ProbeOptions): Probe {
  const memory: Memory = {
    greylisted: memoryOf(options.greylistMs),
    resting: memoryOf(options.restMs),
    catchAll: memoryOf(options.catchAllMs),
  }
  return async (address, request) => {
    if (memory.greylisted.has(address)) return { mailbox: 'greylisted', again: true }
    const domain = address.slice(address.lastIndexOf('@') + 1)
    const probed = await askHosts({ ...options, ...request, memory, address, domain })
    if (probed.mailbox !== 'greylisted') return probed
    memory.greylisted.set(address, true)
    return { ...probed, again: true }
  }
}

function memoryOf<T extends NonNullable<unknown>> (ttlMs: number): LRUCache<string, T> {
  // A time of zero would mean for ever.
  return new LRUCache<string, T>({ max: REMEMBERED, ttl: Math.max(1, ttlMs) })
}

/** The next host only when the one before could not be asked; a refusal is never gone around. */
async function askHosts (row: Row): Promise<Probed> {
  const { memory, turns, domain, signal, endsAtMs } = row
  const beginByMs = endsAtMs - SHORTEST_MS
  let last: Probed = { mailbox: 'unreachable' }
  for (const host of row.hosts.slice(0, MAX_HOSTS)) {
    const resting = memory.resting.get(host.name)
    if (resting !== undefined) last = { mailbox: resting }
    if (resting === 'blocked') return last
    if (resting !== undefined) continue
    const keys = [`domain:${domain}`, `owner:${ownerOf(host.name)}`]
    const asked = await turns(keys, () => askHost(row, host), { signal, beginByMs })
    if (asked === undefined) return { mailbox: 'late', again: true }
    last = asked.probed
    if (!asked.goesOn || signal.aborted) break
  }
  return last
}

type HostAnswer = {
  readonly probed: Probed
  /** Whether another host may know more. */
  readonly goesOn: boolean
}

const BY_FAULT: Readonly<Record<SmtpFaultKind, Mailbox>> = {
  unreachable: 'unreachable',
  dropped: 'unreachable',
  timeout: 'no_answer',
  garbage: 'unclear',
  no_tls: 'unclear',
}

async function askHost (row: Row, host: MailHost): Promise<HostAnswer> {
  const { signal, memory } = row
  const own = AbortSignal.timeout(row.rowTimeoutMs)
  let ready = false
  const onReady = () => { ready = true }
  try {
    return await judged({ ...row, signal: AbortSignal.any([signal, own]), onReady }, host)
  } catch (error) {
    if (!(error instanceof SmtpFault)) throw error
    // Cut off by the others of its call, not by its own slowness.
    if (signal.aborted && !own.aborted) {
      return { probed: { mailbox: 'late', again: true }, goesOn: false }
    }
    const mailbox = BY_FAULT[error.kind]
    // What happens at one recipient says nothing about those of other rows.
    if (!ready) memory.resting.set(host.name, mailbox)
    return { probed: { mailbox }, goesOn: !ready }
  }
}

async function judged (row: Row, host: MailHost): Promise<HostAnswer> {
  const { address, domain, memory } = row
  const place = `${host.name} ${domain}`
  const known = acceptsAnyone(domain) ? true : memory.catchAll.get(place)
  const trusted = known === undefined && tellsTheTruth(domain)
  const tests = known === undefined && !trusted
  const nobody = `${randomBytes(12).toString('hex')}@${domain}`
  const answer = await converse(row, host, tests ? [address, nobody] : [address])
  const { meaning, step } = answer
  if (meaning === 'accepted') {
    const catchAll = tests ? await catchAllOf(row, host, { answer, nobody }) : known
    if (tests && catchAll !== undefined) memory.catchAll.set(place, catchAll)
    const probed = { mailbox: 'accepted', catchAll, ...(trusted ? { trusted } : {}) } as const
    return { probed, goesOn: false }
  }
  const mailbox = meaning === 'limited' ? 'greylisted' : meaning
  if (step !== 'recipient' && mailbox === 'blocked') memory.resting.set(host.name, mailbox)
  return { probed: { mailbox }, goesOn: step === 'greeting' && mailbox === 'greylisted' }
}

type CatchAllTest = { readonly answer: ServerAnswer, readonly nobody: string }

/** A server that hears of one recipient at a time is asked about the second one anew. */
async function catchAllOf (row: Row, host: MailHost, { answer, nobody }: CatchAllTest):
Promise<boolean | undefined> {
  if (answer.second !== 'limited') return acceptance(answer.second)
  try {
    const again = await converse(row, host, [nobody])
    return again.step === 'recipient' ? acceptance(again.meaning) : undefined
  } catch (error) {
    if (error instanceof SmtpFault) return undefined
    throw error
  }
}

function acceptance (meaning: Meaning | undefined): boolean | undefined {
  if (meaning === 'accepted') return true
  return meaning === 'no_mailbox' || meaning === 'refused' ? false : undefined
}

/** One conversation; a server whose encryption does not work gets a second one without. */
async function converse (row: Row, host: MailHost, recipients: readonly string[]):
Promise<ServerAnswer> {
  const once = async (secureAs: string | undefined) => {
    const { signal, replyTimeoutMs, caller, onReady = () => {} } = row
    const socket = await row.connect(host.addresses[0] ?? '', signal)
    const channel = createChannel(socket, { signal, replyTimeoutMs })
    try {
      return await askServer(channel, caller, { recipients, secureAs, onReady })
    } finally {
      await channel.close()
    }
  }
  try {
    return await once(row.secures ? host.name : undefined)
  } catch (error) {
    if (!(error instanceof SmtpFault) || error.kind !== 'no_tls') throw error
    return await once(undefined)
  }
}
