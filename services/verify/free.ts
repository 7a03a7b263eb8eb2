import { failpoint } from '../lib/failpoint.ts'
import { pickTokens, type CachedRecord } from '../records/cache.ts'
import { ask, isUsable, kindOf, outcomeAt, recordsOf, scopeOf, type Work } from './work.ts'

/**
 * Checks rows whose checks cost nothing and wait for nobody, without a lease beforehand: what the
 * cache has of a contact by then counts, else the verdict, so that a contact is paid for once.
 * Gives the positions that have no verdict, that another job has under check, or all of them when
 * a check of such rows is worth a lease.
 *
 * While tokens of several versions are about, contacts meet by leases under all of them.
 */
export async function answerFree (work: Work, positions: readonly number[]):
Promise<readonly number[]> {
  const { part, parts, outcomes } = work
  const isFree = parts.check.asksNobody?.(kindOf(part.value)) === true
  if (!isFree || !isOfOneVersion(part.rows)) return positions
  const records = await recordsFor(work, positions)
  const rows = [...records.keys()]
  failpoint('verify.offering')
  const stands = await parts.cache.offer(scopeOf(part), pickTokens(part.rows.tokens, rows), {
    records: [...records.values()], usable: (record) => isUsable(record, part),
  })
  failpoint('verify.offered')
  for (const [index, position] of rows.entries()) {
    const record = stands[index] ?? 'held'
    if (record === 'held') continue
    const source = record.job === part.value.job ? 'live' : 'cache'
    outcomes[position] = outcomeAt(work, position, { record, source })
  }
  return positions.filter((position) => outcomes[position] === undefined)
}

function isOfOneVersion ({ otherTokens }: Work['part']['rows']): boolean {
  return otherTokens === null || otherTokens === undefined
}

/** The verdicts by position. */
async function recordsFor (work: Work, positions: readonly number[]):
Promise<ReadonlyMap<number, CachedRecord>> {
  const { part, parts } = work
  const checked = await ask(work, positions)
  if (checked.kind !== 'answered') return new Map()
  const recordOf = recordsOf({ checkedAtMs: parts.clock.now(), job: part.value.job })
  return new Map([...checked.verdicts]
    .filter(([, { status }]) => status !== 'unknown')
    .map(([position, verdict]) => [position, recordOf(verdict)]))
}
