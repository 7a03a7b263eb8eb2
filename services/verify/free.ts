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
  const { rows, records } = await recordsFor(work, positions)
  failpoint('verify.offering')
  const stands = await parts.cache.offer(scopeOf(part), pickTokens(part.rows.tokens, rows), {
    records, usable: (record) => isUsable(record, part),
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

type Records = { readonly rows: readonly number[], readonly records: readonly CachedRecord[] }

/** The positions that have a verdict, and the record of each. */
async function recordsFor (work: Work, positions: readonly number[]): Promise<Records> {
  const { part, parts } = work
  const checked = await ask(work, positions)
  const rows: number[] = []
  const records: CachedRecord[] = []
  if (checked.kind !== 'answered') return { rows, records }
  const recordOf = recordsOf({ checkedAtMs: parts.clock.now(), job: part.value.job })
  for (const position of positions) {
    const verdict = checked.verdicts.get(position)
    if (verdict === undefined || verdict.status === 'unknown') continue
    rows.push(position)
    records.push(recordOf(verdict))
  }
  return { rows, records }
}
