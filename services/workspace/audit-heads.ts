import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import {
  canonicalText, hashAfter, START, type ChainHead, type Link,
} from '../records/journal-chain.ts'
import type { HeadsCodec } from '../records/journal-heads.ts'
import type { JournalTexts } from './audit-history.ts'
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
  file: string, codec: Pick<HeadsCodec, 'decode'>
): Promise<ExportedHeads> {
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
    for (const { tenant, seq, hash } of heads.tenants) {
      if (seq > (greatest.get(tenant)?.seq ?? 0)) greatest.set(tenant, { seq, hash, at: heads.at })
    }
  }
  if (number === 0) throw new Error(`${file} has no exported journal head in it`)
  return greatest
}

/** What is known of a tenant that was exported; undefined for what the system does not have. */
export type Journals = {
  readonly copy: readonly Link[] | undefined
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
  const texts = new Map(copy.map(({ entry }) => [entry.seq, canonicalText(entry)]))
  return [['ClickHouse', texts] as const, ['Kafka', kafka] as const]
    .flatMap(([where, journal]) => {
      if (journal === undefined) return []
      const found = chainUpTo(head.seq, journal)
      const what = found.seq < head.seq
        ? `ends at entry ${found.seq}`
        : `has the hash ${found.hash} there`
      return missedUnless(found.hash === head.hash, `the journal in ${where} ${what}`)
    })
}

/** The chain of the entries from the first on, up to a seq or to the first gap before. */
function chainUpTo (last: number, texts: JournalTexts): ChainHead {
  let { seq, hash } = START
  for (let text = texts.get(seq + 1); seq < last && text !== undefined;) {
    seq += 1
    hash = hashAfter(hash, text)
    text = texts.get(seq + 1)
  }
  return { seq, hash }
}
