import type { Admin } from 'kafkajs'
import type { Journal } from '../../../schemas/types.ts'
import { UsageError } from '../../lib/run-command.ts'
import { subscriptionsOf, topicName } from '../../lib/topics.ts'
import { areEqual, NOTHING, post, textOf, type Amounts } from '../../money/fold.ts'
import { follow, START, type ChainHead } from '../../records/journal-chain.ts'
import type { JournalCopy } from '../../records/journal-copy.ts'
import { STAGES, topology, type WritesOf } from '../../topology.ts'

export type RestoreParts = {
  readonly admin: Pick<Admin, 'fetchTopicOffsets' | 'describeGroups'>
  readonly copy: Pick<JournalCopy, 'lengths' | 'pages'>
  /** Resolves when the topic has all of them, in this order. */
  readonly send: (entries: readonly Journal[]) => Promise<void>
  readonly show: (progress: Progress) => void
}

export type Progress = {
  readonly step: 'proved' | 'restored'
  readonly entries: number
  readonly tenants: number
}

/** `forged`: rows of the copy that no service stored, and that were left out. */
export type Restored = {
  readonly tenants: number
  readonly entries: number
  readonly forged: number
}

const FAULTS_SHOWN = 10

/**
 * Writes the topic of the journal from its copy. Nothing is written before the chain of every
 * tenant is proven: each number from 1 on once, each balance the one that its movement leads to.
 * @throws UsageError when the topic has messages, a snapshot or a writer of it is left, or the copy
 * is empty or not whole.
 */
export async function restoreJournal (parts: RestoreParts): Promise<Restored> {
  await checkTopics(parts.admin)
  const { lengths } = parts.copy
  const tenants = [...(await lengths()).keys()].toSorted()
  const proven = new Map<string, Walked>()
  const faults: string[] = []
  let entries = 0
  for (const [index, tenant] of tenants.entries()) {
    const walked = await walk(parts.copy, tenant, async page => {
      entries += page.length
      parts.show({ step: 'proved', entries, tenants: index })
    })
    proven.set(tenant, walked)
    faults.push(...walked.faults.map(fault => `${tenant}: ${fault}`))
  }
  if (faults.length > 0) throw brokenCopy(faults)
  if (entries === 0) throw new UsageError('The copy of the journal in ClickHouse has no entries.')
  entries = 0
  for (const [index, tenant] of tenants.entries()) {
    const { head } = await walk(parts.copy, tenant, async page => {
      await parts.send(page)
      entries += page.length
      parts.show({ step: 'restored', entries, tenants: index })
    })
    if (head.hash !== proven.get(tenant)?.head.hash) throw changedCopy(tenant)
  }
  const forged = [...proven.values()].reduce((sum, walked) => sum + walked.forged, 0)
  const restored = [...proven.values()].filter(({ head }) => head.seq > 0).length
  return { tenants: restored, entries, forged }
}

type Walked = {
  readonly head: ChainHead
  readonly forged: number
  readonly faults: readonly string[]
}

/** Reads the copy of a tenant from its first entry to its last, and says what contradicts it. */
async function walk (
  copy: Pick<JournalCopy, 'pages'>, tenant: string,
  onPage: (entries: readonly Journal[]) => Promise<void>
): Promise<Walked> {
  const faults: string[] = []
  let head = START
  let amounts: Amounts = NOTHING
  let forged = 0
  for await (const page of copy.pages(tenant, { seq: 0, atMs: 0 })) {
    forged += page.forged.length
    for (const entry of page.entries) {
      if (entry.seq === head.seq) faults.push(`there are two entries with the number ${entry.seq}`)
      const isNext = entry.seq === head.seq + 1
      const after = post(amounts, entry)
      if (isNext && !areEqual(after, entry)) {
        faults.push(`entry ${entry.seq} leads to ${textOf(after)}, not to ${textOf(entry)}`)
      }
      head = follow(head, entry)
      amounts = entry
    }
    await onPage(page.entries)
  }
  const missing = head.missing.map(([first, last]) => `the entries ${first} to ${last} are missing`)
  return { head, forged, faults: [...missing, ...faults] }
}

async function checkTopics (admin: RestoreParts['admin']): Promise<void> {
  const journal: WritesOf<'ledger'> = 'wallet.journal'
  const writers = STAGES.filter(stage => {
    const writes: readonly string[] = topology.stages[stage].writes
    return writes.includes(journal)
  })
  const groups = writers.flatMap(stage => subscriptionsOf(stage).map(({ group }) => group))
  const described = await admin.describeGroups(groups)
  const running = described.groups.filter(({ members }) => members.length > 0)
  if (running.length > 0) {
    throw new UsageError(`Stop ${writers.join(', ')} first: they write the journal, and ` +
      `${running.map(({ groupId }) => groupId).join(', ')} still has members.`)
  }
  const count = async (topic: string) => (await admin.fetchTopicOffsets(topic))
    .reduce((sum, { low, high }) => sum + Number(high) - Number(low), 0)
  const entries = await count(topicName(journal))
  if (entries > 0) {
    throw new UsageError(`The topic ${journal} has ${entries} messages, and only an empty one ` +
      'is restored. If it is broken, delete it and make it again: "npm run provision".')
  }
  const snapshots = await count(topicName('wallet.snapshots'))
  if (snapshots === 0) return
  throw new UsageError(`The topic wallet.snapshots has ${snapshots} messages, and snapshots name ` +
    'positions of the journal that is gone. Delete that topic as well and make it again: ' +
    '"npm run provision". Nothing is lost by that.')
}

function brokenCopy (faults: readonly string[]): UsageError {
  const more = faults.length - FAULTS_SHOWN
  return new UsageError(['The copy of the journal in ClickHouse is not whole, and nothing was ' +
    'written:', ...faults.slice(0, FAULTS_SHOWN), ...more > 0 ? [`and ${more} more`] : []]
    .join('\n'))
}

function changedCopy (tenant: string): UsageError {
  return new UsageError(`The copy of ${tenant} changed while it was read. Delete the topic ` +
    'wallet.journal, make it again with "npm run provision", and restore it once more.')
}
