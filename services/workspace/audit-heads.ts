import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Journal } from '../../schemas/types.ts'
import type { MessageKeySettings } from '../lib/mac.ts'
import { canonicalText, hashAfter, START, type ChainHead } from '../records/journal-chain.ts'
import { createHeadsCodec } from '../records/journal-heads.ts'
import type { JournalTexts } from './audit-journal.ts'
import { breachUnless, type Breach } from './audit-report.ts'

/** The last entry of a tenant that was ever exported, and when it was; Unix ms. */
export type ExportedHead = ChainHead & { readonly at: number }

export type ExportedHeads = ReadonlyMap<string, ExportedHead>

/**
 * The greatest head of each tenant in a file of exports, one a line: a later export may be of a
 * journal whose end was deleted before.
 * @throws Error that names the line which is not authentic, or when there is none.
 */
export async function readExportedHeads (
  file: string, settings: MessageKeySettings
): Promise<ExportedHeads> {
  const codec = createHeadsCodec(settings)
  const greatest = new Map<string, ExportedHead>()
  let number = 0
  const lines = createInterface({ input: createReadStream(file), crlfDelay: Infinity })
  for await (const line of lines) {
    number += 1
    const heads = codec.decode(line)
    if (heads === undefined) {
      throw new Error(`line ${number} of ${file} is not authentic: it was changed or cut, or ` +
        'MESSAGE_KEYS lacks the key it was signed with. Compare it with another copy; a line ' +
        'that a crash has cut may be removed')
    }
    for (const { tenant, ...head } of heads.tenants) {
      if (head.seq <= (greatest.get(tenant)?.seq ?? 0)) continue
      greatest.set(tenant, { ...head, at: heads.at })
    }
  }
  if (number === 0) throw new Error(`${file} has no exported journal head in it`)
  return greatest
}

/** What is known of a tenant that was exported; undefined for what the system does not have. */
export type Journals = {
  readonly copy: readonly Journal[] | undefined
  /** Undefined when Kafka was not read. */
  readonly kafka: JournalTexts | undefined
}

/** What was exported once is in the journal for ever, after the very same entries. */
export function checkHead (
  head: ExportedHead, { copy, kafka }: Journals
): readonly Omit<Breach, 'tenant'>[] {
  const exported = `entry ${head.seq} with hash ${head.hash} was exported at ` +
    `${new Date(head.at).toISOString()}`
  const missedUnless = (holds: boolean, why: string) => breachUnless(holds, {
    law: 'the journal contains the exported head', detail: `${exported}; ${why}`,
  })
  if (copy === undefined) return missedUnless(false, 'Redis does not know the tenant')
  const texts = new Map(copy.map(entry => [entry.seq, canonicalText(entry)]))
  return [['ClickHouse', texts] as const, ['Kafka', kafka] as const]
    .flatMap(([where, journal]) => {
      if (journal === undefined) return []
      const { lacks, hash } = chainUpTo(head, journal)
      const what = lacks === undefined ? `has the hash ${hash} there` : `lacks entry ${lacks}`
      return missedUnless(hash === head.hash, `the journal in ${where} ${what}`)
    })
}

/**
 * The hash of the chain up to an exported head, or the first entry that the chain lacks. What was
 * missing when the head was exported is no part of its chain, though it may have come since then.
 */
function chainUpTo (
  { seq: last, missing }: ChainHead, texts: JournalTexts
): { readonly hash?: string, readonly lacks?: number } {
  let { seq, hash } = START
  while (seq < last) {
    seq += 1
    if (missing.some(([from, to]) => seq >= from && seq <= to)) continue
    const text = texts.get(seq)
    if (text === undefined) return { lacks: seq }
    hash = hashAfter(hash, text)
  }
  return { hash }
}
