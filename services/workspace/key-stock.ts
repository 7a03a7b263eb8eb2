import { kidOf, type KeyRing, type Wrapped } from '../lib/key-ring.ts'
import { SealError } from '../lib/seal.ts'

/** What the ring wraps, by where it is stored. */
export const HOLDERS = [
  'jobKeys', 'jobKeysInTopic', 'jobKeysInClickhouse', 'webhookSecrets', 'partnerKeys',
  'requestSecrets',
] as const

export type Holder = typeof HOLDERS[number]
export type Holders = Readonly<Record<Holder, () => AsyncIterable<Wrapped>>>

/** How much is wrapped by a key of the ring, or by one that the ring lacks. */
export type KeyUse = {
  readonly kid: string
  readonly inRing: boolean
  readonly isActive: boolean
  readonly wraps: Readonly<Record<Holder, number>>
  /** Nothing is wrapped by it: once no process has it as its active key, it may be taken out. */
  readonly isFree: boolean
}

export type Stock = {
  readonly keys: readonly KeyUse[]
  /** Stored bytes that no ring has wrapped. */
  readonly broken: number
  /** Keys that are needed and not in the ring. */
  readonly lacking: readonly string[]
}

export type Rewrapped = Stock & {
  readonly rewrapped: number
  /** Changed by others at the same moment; the next time finds them. */
  readonly missed: number
}

type Parts = {
  readonly ring: Pick<KeyRing, 'rewrap' | 'activeKid' | 'kids'>
  readonly holders: Holders
}

type Counts = Map<string, Record<Holder, number>>

/** Counts what each key wraps, and changes nothing. */
export async function takeStock ({ ring, holders }: Parts): Promise<Stock> {
  const counts = emptyCounts(ring.kids)
  let broken = 0
  for (const holder of HOLDERS) {
    for await (const { bytes } of holders[holder]()) {
      const kid = kidIn(bytes)
      if (kid === undefined) broken += 1
      else countIn(counts, kid)[holder] += 1
    }
  }
  return stockOf(ring, counts, broken)
}

/**
 * Wraps everything by the active key that is wrapped by another one of the ring, and counts what
 * there is afterwards. What is wrapped by a key that the ring lacks stays as it is.
 */
export async function rewrapAll (parts: Parts): Promise<Rewrapped> {
  const { ring, holders } = parts
  const done = { rewrapped: 0, missed: 0 }
  const waiting: Promise<void>[] = []
  const replaceOne = async ({ replace }: Wrapped, fresh: Buffer) => {
    if (await replace(fresh)) done.rewrapped += 1
    else done.missed += 1
  }
  for (const holder of HOLDERS) {
    for await (const wrapped of holders[holder]()) {
      const { bytes, binding } = wrapped
      const kid = kidIn(bytes)
      if (kid === undefined || !ring.kids.includes(kid)) continue
      const fresh = ring.rewrap(bytes, binding)
      if (fresh !== undefined) waiting.push(replaceOne(wrapped, fresh))
      if (waiting.length === AT_ONCE) await Promise.all(waiting.splice(0))
    }
  }
  await Promise.all(waiting)
  return { ...await takeStock(parts), ...done }
}

/** A broker acknowledges many messages about as fast as one. */
const AT_ONCE = 200

function stockOf ({ activeKid, kids }: Parts['ring'], counts: Counts, broken: number): Stock {
  const keys = [...counts].map(([kid, wraps]) => ({
    kid,
    inRing: kids.includes(kid),
    isActive: kid === activeKid,
    wraps,
    isFree: kid !== activeKid && Object.values(wraps).every(count => count === 0),
  }))
  return { keys, broken, lacking: keys.filter(({ inRing }) => !inRing).map(({ kid }) => kid) }
}

function kidIn (bytes: Buffer): string | undefined {
  try {
    return kidOf(bytes)
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}

function emptyCounts (kids: readonly string[]): Counts {
  const counts: Counts = new Map()
  for (const kid of kids) countIn(counts, kid)
  return counts
}

function countIn (counts: Counts, kid: string): Record<Holder, number> {
  const known = counts.get(kid) ??
    Object.fromEntries(HOLDERS.map(holder => [holder, 0])) as Record<Holder, number>
  counts.set(kid, known)
  return known
}
