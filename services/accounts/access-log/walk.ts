import type { AccessEntry } from '../../../schemas/types.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import type { TopicReader } from '../../runtime/kafka/topic-reader.ts'
import { CHAIN_START, type ChainHead, extendByText, type Range } from '../../money/journal-chain.ts'
import { topicName } from '../../runtime/platform/topics.ts'
import type { AccessCopy } from './copy.ts'
import { accessText, type NumberedEntry } from './access-log.ts'

/** The name of the chain of the access log among exported heads, which tenants never have. */
export const ACCESS_CHAIN = 'access.log'

export type AccessWalkDeps = {
  /** Reads topics to their ends, without forged messages. */
  readonly read: (...call: Parameters<TopicReader['read']>) => Promise<unknown>
  readonly codec: Pick<Codec, 'decode'>
  readonly copy: Pick<AccessCopy, 'range'>
  /** The highest number that is known to be copied. */
  readonly head: { readonly read: () => Promise<number> }
}

type WalkOptions = {
  /** A head that was exported earlier. */
  readonly exported?: ChainHead | undefined
  /** Receives each entry with the hash of the chain up to it, in order. */
  readonly onEntry?: (entry: NumberedEntry, hash: string) => void
}

/** What is wrong with the access log. */
type AccessFinding = { readonly rule: string, readonly detail: string }

export type AccessWalk = {
  readonly head: ChainHead
  readonly findings: readonly AccessFinding[]
}

export const ACCESS_RULES = {
  numbers: 'the access log is numbered 1 to n',
  stores: 'Kafka and ClickHouse have the same entries of the access log',
  signed: 'every row of the access log is signed by a service',
  exported: 'the access log contains the exported head',
} as const

const WINDOW = 2_000
/** An entry that is older than this is in ClickHouse, unless `ledger` does not run. */
const MAX_COPY_MS = 600_000

/**
 * Reads the access log in Kafka and in ClickHouse side by side, in bounded memory. It finds each
 * entry that was removed, changed, added or moved in one of them, and entries that were removed at
 * the end of both.
 */
export async function walkAccessLog (
  { read, codec, copy, head }: AccessWalkDeps, options: WalkOptions
): Promise<AccessWalk> {
  const startedMs = Date.now()
  const copied = await head.read()
  const mustBeCopied = ({ seq, at }: NumberedEntry) =>
    seq <= copied || at < startedMs - MAX_COPY_MS
  const walk = createWalk(mustBeCopied, options)
  const at = { from: 1, last: Math.max(copied, options.exported?.seq ?? 0) }
  let topic = new Map<number, NumberedEntry>()
  const compareUpTo = async (to: number) => {
    walk.compare([at.from, to], topic, await copy.range(at.from, to))
    at.from = to + 1
    topic = new Map()
  }
  await read(topicName('access.log'), async messages => {
    for (const { value, offset } of messages) {
      if (value === null) continue
      const seq = Number(offset) + 1
      while (seq >= at.from + WINDOW) await compareUpTo(at.from + WINDOW - 1)
      topic.set(seq, { ...await codec.decode('access.log', value) as AccessEntry, seq })
      at.last = Math.max(at.last, seq)
    }
  })
  while (at.from <= at.last) await compareUpTo(Math.min(at.from + WINDOW - 1, at.last))
  walk.addUnknown(await copy.range(at.from, Number.MAX_SAFE_INTEGER))
  return walk.result()
}

type Page = Awaited<ReturnType<AccessCopy['range']>>

function createWalk (
  mustBeCopied: (entry: NumberedEntry) => boolean, { exported, onEntry = () => {} }: WalkOptions
) {
  let head = CHAIN_START
  let isExported = exported === undefined || exported.missing.length > 0
  const findings = createFindings()
  const compareOne = (
    seq: number, topic: NumberedEntry | undefined, stored: readonly NumberedEntry[]
  ) => {
    const entry = topic ?? stored[0]
    if (entry === undefined) return findings.add('lost', seq)
    if (topic === undefined) findings.add('kafka', seq)
    if (stored.length === 0 && mustBeCopied(entry)) findings.add('clickhouse', seq)
    const isOther = (copy: NumberedEntry) => accessText(copy) !== accessText(entry)
    if (stored.some(isOther)) findings.add('different', seq)
    head = extendByText(head, seq, () => accessText(entry))
    if (seq === exported?.seq && head.hash === exported.hash) isExported = true
    onEntry(entry, head.hash)
  }
  return {
    compare: ([from, to]: Range, topic: ReadonlyMap<number, NumberedEntry>, page: Page): void => {
      const stored = Map.groupBy(page.entries, ({ seq }) => seq)
      for (const seq of page.forged) findings.add('forged', seq)
      for (let seq = from; seq <= to; seq += 1) {
        compareOne(seq, topic.get(seq), stored.get(seq) ?? [])
      }
    },
    /** Entries after the last one of Kafka; those of the last minutes may have come since. */
    addUnknown: (page: Page): void => {
      for (const seq of page.forged) findings.add('forged', seq)
      for (const entry of page.entries) if (mustBeCopied(entry)) findings.add('kafka', entry.seq)
    },
    result: (): AccessWalk => ({
      head,
      findings: [
        ...findings.list(),
        ...isExported
          ? []
          : [{
              rule: ACCESS_RULES.exported,
              detail: `entry ${exported?.seq} had the hash ${exported?.hash} when it was ` +
                'exported; it or an entry before it was removed or changed',
            }],
      ],
    }),
  }
}

const KINDS = {
  lost: [ACCESS_RULES.numbers, 'missing in Kafka and in ClickHouse'],
  kafka: [ACCESS_RULES.stores, 'missing in Kafka'],
  clickhouse: [ACCESS_RULES.stores, 'missing in ClickHouse'],
  different: [ACCESS_RULES.stores, 'different in ClickHouse'],
  forged: [ACCESS_RULES.signed, 'in a row of ClickHouse without an authentic MAC'],
} as const

/** Numbers by what is wrong with them, as ranges. */
function createFindings () {
  const ranges = new Map<keyof typeof KINDS, [first: number, last: number][]>()
  return {
    add: (kind: keyof typeof KINDS, seq: number): void => {
      const rangesOfKind = ranges.get(kind) ?? []
      ranges.set(kind, rangesOfKind)
      const last = rangesOfKind.at(-1)
      if (last !== undefined && (seq === last[1] || seq === last[1] + 1)) last[1] = seq
      else rangesOfKind.push([seq, seq])
    },
    list: (): readonly AccessFinding[] => [...ranges].flatMap(([kind, rangesOfKind]) =>
      rangesOfKind.map(([first, last]) => {
        const [rule, what] = KINDS[kind]
        const subject = first === last ? `entry ${first} is` : `entries ${first} to ${last} are`
        return { rule, detail: `${subject} ${what}` }
      })),
  }
}

/** The head of the chain in ClickHouse, from an earlier one on. */
export async function accessHeadOf (
  copy: Pick<AccessCopy, 'pages'>, from: ChainHead
): Promise<ChainHead> {
  let head = from
  for await (const { entries } of copy.pages(from.seq)) {
    for (const entry of entries) {
      head = extendByText(head, entry.seq, () => accessText(entry))
    }
  }
  return head
}
