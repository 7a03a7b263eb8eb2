import type { Journal } from '../../schemas/types.ts'
import type { NumberedEntry } from '../accounts/access-log/access-log.ts'
import type { AccessCopy } from '../accounts/access-log/copy.ts'
import {
  CHAIN_START, type ChainHead, trackContradictions, extendChain, type JournalCopy,
} from '../money/journal.ts'
import { type Amounts, areEqual, formatAmounts, post, ZERO_AMOUNTS } from '../money/prices.ts'
import type { KafkaAdmin } from '../runtime/kafka/client.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'
import { listSubscriptions, topicName } from '../runtime/platform/topics.ts'
import { STAGES, topology, type WritesOf } from '../topology.ts'

/** What a restore reads, and where it writes: resolved once the brokers have all, in this order. */
export type RestoreDeps = {
  readonly admin: Pick<KafkaAdmin, 'fetchTopicOffsets' | 'describeGroups'>
  readonly copy: Pick<JournalCopy, 'lengths' | 'pages'>
  readonly accessCopy: Pick<AccessCopy, 'pages'>
  readonly send: (entries: readonly Journal[]) => Promise<void>
  readonly sendAccess: (entries: readonly NumberedEntry[]) => Promise<void>
  readonly show: (progress: Progress) => void
}

export type Progress = {
  readonly step: 'verified' | 'restored'
  readonly entries: number
  readonly tenants: number
}

/**
 * `forged`: rows of the copy with an invalid signature, which were skipped; `actions`: entries of
 * the access log.
 */
export type Restored = Readonly<Record<'tenants' | 'entries' | 'forged' | 'actions', number>>

/** Restores the journal, then the access log. */
export async function restore (deps: RestoreDeps): Promise<Restored> {
  return { ...await restoreJournal(deps), actions: await restoreAccessLog(deps) }
}

const MAX_PROBLEMS_SHOWN = 10
const UNRESOLVED = 'Two entries with one number are a contradiction that nobody has resolved. As ' +
  'long as wallet.journal has its entries, resolve it by "npm run admin -- thaw --org ORG --mode ' +
  'MODE --trust journal"; if it is lost, see "The journal topic" in recovery.md.'

/**
 * Writes the topic of the journal from its copy in ClickHouse. Writes nothing before the chain of
 * every tenant is verified: each sequence number from 1 on once, each balance the result of its
 * movement, or else a later entry that resolves what contradicts.
 * @throws UsageError when wallet.journal or wallet.snapshots has messages, a stage that writes the
 * journal is running, or the copy is empty or inconsistent.
 */
async function restoreJournal (deps: RestoreDeps): Promise<Omit<Restored, 'actions'>> {
  await checkTopics(deps.admin)
  const { lengths } = deps.copy
  const tenants = [...(await lengths()).keys()].toSorted()
  const verified = new Map<string, Chain>()
  const problems: string[] = []
  let entries = 0
  for (const [index, tenant] of tenants.entries()) {
    const chain = await readChain(deps.copy, tenant, async page => {
      entries += page.length
      deps.show({ step: 'verified', entries, tenants: index })
    })
    verified.set(tenant, chain)
    problems.push(...chain.problems.map(problem => `${tenant}: ${problem}`))
  }
  if (problems.length > 0) {
    const more = problems.length - MAX_PROBLEMS_SHOWN
    throw new UsageError([
      'The copy of the journal in ClickHouse is inconsistent. Nothing was written:',
      ...problems.slice(0, MAX_PROBLEMS_SHOWN),
      ...more > 0 ? [`and ${more} more`] : [],
      ...[...verified.values()].some(({ contradicts }) => contradicts) ? [UNRESOLVED] : [],
    ].join('\n'))
  }
  if (entries === 0) throw new UsageError('The copy of the journal in ClickHouse has no entries.')
  entries = 0
  for (const [index, tenant] of tenants.entries()) {
    const { head } = await readChain(deps.copy, tenant, async page => {
      await deps.send(page)
      entries += page.length
      deps.show({ step: 'restored', entries, tenants: index })
    })
    if (head.hash !== verified.get(tenant)?.head.hash) {
      throw new CommandFailure(`The copy of ${tenant} changed during the restore. Delete the ` +
        'topic wallet.journal, create it again with "npm run provision", and restart the restore.')
    }
  }
  const forged = [...verified.values()].reduce((sum, chain) => sum + chain.forged, 0)
  const restored = [...verified.values()].filter(({ head }) => head.seq > 0).length
  return { tenants: restored, entries, forged }
}

type Chain = {
  readonly head: ChainHead
  readonly forged: number
  readonly problems: readonly string[]
  /** Whether some of them are two entries with one number. */
  readonly contradicts: boolean
}

/** Reads the copy of a tenant from its first entry to its last, and collects inconsistencies. */
async function readChain (
  copy: Pick<JournalCopy, 'pages'>, tenant: string,
  onPage: (entries: readonly Journal[]) => Promise<void>
): Promise<Chain> {
  const problems: { readonly seq: number, readonly problem: string }[] = []
  let lastTwice = 0
  let head = CHAIN_START
  let amounts: Amounts = ZERO_AMOUNTS
  let forged = 0
  for await (const page of copy.pages(tenant, { seq: 0, atMs: 0 })) {
    forged += page.forged.length
    for (const entry of page.entries) {
      const { seq } = entry
      if (seq === head.seq) {
        problems.push({ seq, problem: `two entries have the number ${seq}` })
        lastTwice = seq
      }
      const isNext = seq === head.seq + 1
      const expected = post(amounts, entry)
      if (isNext && !areEqual(expected, entry)) {
        const problem = `entry ${seq} must have ${formatAmounts(expected)}, ` +
          `but it has ${formatAmounts(entry)}`
        problems.push({ seq, problem })
      }
      head = extendChain(head, entry)
      amounts = entry
    }
    await onPage(page.entries)
  }
  const missing = head.missing.map(([first, last]) => `entries ${first} to ${last} are missing`)
  const upTo = problems.length === 0 ? 0 : await findResolved(copy, tenant)
  const unresolved = problems.filter(({ seq }) => seq > upTo).map(({ problem }) => problem)
  return { head, forged, problems: [...missing, ...unresolved], contradicts: lastTwice > upTo }
}

/**
 * Up to which number the contradictions of a tenant's journal are resolved. Reads the journal once
 * more, as it holds all movements in memory, and few journals contradict themselves.
 */
async function findResolved (
  copy: Pick<JournalCopy, 'pages'>, tenant: string
): Promise<number> {
  const resolver = trackContradictions()
  for await (const { entries } of copy.pages(tenant, { seq: 0, atMs: 0 })) {
    for (const entry of entries) resolver.add(entry)
  }
  return resolver.end().upTo
}

async function checkTopics (admin: RestoreDeps['admin']): Promise<void> {
  const journal: WritesOf<'ledger'> = 'wallet.journal'
  const writers = STAGES.filter(stage => {
    const writes: readonly string[] = topology.stages[stage].writes
    return writes.includes(journal)
  })
  const groups = writers.flatMap(stage => listSubscriptions(stage).map(({ group }) => group))
  const described = await admin.describeGroups(groups)
  const running = described.groups.filter(({ members }) => members.length > 0)
  if (running.length > 0) {
    throw new UsageError('Stages that write the journal are still running (groups ' +
      `${running.map(({ groupId }) => groupId).join(', ')}). Stop ${writers.join(', ')} first.`)
  }
  const count = async (topic: string) => (await admin.fetchTopicOffsets(topic))
    .reduce((sum, { low, high }) => sum + Number(high) - Number(low), 0)
  const entries = await count(topicName(journal))
  if (entries > 0) {
    throw new UsageError(`The topic ${journal} has ${entries} messages, but only an empty topic ` +
      'can be restored. If it is damaged, delete it and create it again: "npm run provision".')
  }
  const snapshots = await count(topicName('wallet.snapshots'))
  if (snapshots === 0) return
  throw new UsageError(`The topic wallet.snapshots has ${snapshots} messages, which contain ` +
    'positions of the lost journal. Delete that topic too and create it again: "npm run ' +
    'provision". That loses no data.')
}

const TOPIC = topicName('access.log')

/**
 * Writes a new topic of the access log from its copy in ClickHouse, so that each entry gets its
 * number again. Returns the number of entries; 0 if the topic has them.
 * @throws CommandFailure if the topic has some of them, as after an interrupted restore, or the
 * copy has a gap, before anything is written; or if the topic got other messages meanwhile.
 */
async function restoreAccessLog (
  { admin, accessCopy, sendAccess }: RestoreDeps
): Promise<number> {
  const written = async () => (await admin.fetchTopicOffsets(TOPIC))
    .reduce((sum, { high }) => sum + Number(high), 0)
  const before = await written()
  let last = 0
  for await (const { entries } of accessCopy.pages(0)) {
    for (const { seq } of entries) {
      if (before === 0 && seq !== last + 1) {
        const problem = seq === last
          ? `two entries with the number ${last}`
          : `no entry ${last + 1} behind entry ${last}`
        throw new CommandFailure('The journal is restored. The copy of the access log in ' +
          `ClickHouse has ${problem}, so later entries would get other numbers. Nothing was ` +
          `written to ${TOPIC}.`)
      }
      last = seq
    }
  }
  if (before >= last) return 0
  if (before > 0) throw differenceError(before, last)
  for await (const { entries } of accessCopy.pages(0)) await sendAccess(entries)
  const end = await written()
  if (end !== last) throw differenceError(end, last)
  return last
}

const differenceError = (messages: number, last: number) => new CommandFailure(
  `The journal is restored. The topic ${TOPIC} has ${messages} messages, but its copy has ` +
  `entries up to number ${last}, so later entries would get wrong numbers. If ${TOPIC} was lost, ` +
  'delete it, wallet.journal and wallet.snapshots, create all three again with "npm run ' +
  'provision", and restart the restore before you start a stage.')
