import { failpoint } from '../lib/failpoint.ts'
import { pickTokens, type CachedRecord } from '../records/cache.ts'
import { withoutVerdict, type RowOutcome } from '../records/outcome.ts'
import type { Reason } from '../records/record.ts'
import { answerFree } from './free.ts'
import type { Checked } from './providers.ts'
import {
  ask, isUsable, outcomeAt, recordsOf, scopeOf, subjectAt, type CheckParts, type Part,
  type PartOutcomes, type Unmade, type Work,
} from './work.ts'

export type { CheckParts, Part, PartOutcomes } from './work.ts'

/** All rows of the part without a verdict, for one reason. */
export function allWithout (part: Part, reason: Reason, atMs: number): PartOutcomes {
  return part.rows.rows.map((_, position) =>
    withoutVerdict(reason, { atMs, subject: subjectAt(part, position) }))
}

/**
 * Checks the rows of a part. Checks that cost nothing are made at once, and the first verdict of a
 * contact stands. Else what the cache can answer is not bought; a contact that another job of
 * the tenant has under check is waited for, after the part's own checks, until its verdict is there
 * or its lease has ended. A job that bypasses the cache neither reads others' records nor waits.
 */
export async function checkPart (part: Part, parts: CheckParts, signal: AbortSignal):
Promise<PartOutcomes> {
  const outcomes = new Array<RowOutcome | undefined>(part.rows.rows.length).fill(undefined)
  const work = { part, parts, signal, outcomes }
  let open: readonly number[] = [...outcomes.keys()]
  if (part.value.forceFresh) {
    await answerLive(work, await answerFromOwn(work, open))
    return outcomes
  }
  open = await answerFree(work, open)
  const waitUntilMs = parts.clock.now() + parts.leaseMs
  while (open.length > 0) {
    const { mine, held } = await answerFromCache(work, open)
    const late = parts.clock.now() >= waitUntilMs
    const answered = await answerLive(work, late ? [...mine, ...held] : mine)
    await release(work, mine)
    if (!answered || late || held.length === 0) break
    await parts.sleep(parts.leasePollMs, signal)
    open = held
  }
  return outcomes
}

/** Takes what this very job paid for when the part was delivered before; returns what is open. */
async function answerFromOwn (work: Work, open: readonly number[]): Promise<readonly number[]> {
  const { part, parts, outcomes } = work
  const records = await parts.cache.find(scopeOf(part), part.rows.tokens)
  for (const position of open) {
    const record = records[position]
    if (record?.job !== part.value.job) continue
    outcomes[position] = outcomeAt(work, position, { record, source: 'live' })
  }
  return open.filter((position) => outcomes[position] === undefined)
}

type Open = { readonly mine: readonly number[], readonly held: readonly number[] }

/** Answers what it can; the other positions are this part's to check, or another job's. */
async function answerFromCache (work: Work, open: readonly number[]): Promise<Open> {
  const { part, parts, outcomes } = work
  const { job } = part.value
  const claimed = await parts.cache.claim(scopeOf(part, open), pickTokens(part.rows.tokens, open), {
    job, leaseMs: parts.leaseMs, usable: (record) => isUsable(record, part),
  })
  failpoint('verify.claimed')
  const mine: number[] = []
  const held: number[] = []
  for (const [index, position] of open.entries()) {
    const found = claimed[index] ?? 'mine'
    if (found === 'mine') mine.push(position)
    else if (found === 'held') held.push(position)
    else {
      const source = found.job === job ? 'live' : 'cache'
      outcomes[position] = outcomeAt(work, position, { record: found, source })
    }
  }
  return { mine, held }
}

/** Lets others check the contacts that got no verdict; in all other entries there is one now. */
async function release ({ part, parts, outcomes }: Work, mine: readonly number[]): Promise<void> {
  const without = mine.filter((position) =>
    (outcomes[position]?.status ?? 'unknown') === 'unknown')
  if (without.length === 0) return
  await parts.cache.release(
    scopeOf(part, without), pickTokens(part.rows.tokens, without), part.value.job)
}

/** Asks the providers; false when for some rows none could be had, which then stay open. */
async function answerLive (work: Work, positions: readonly number[]): Promise<boolean> {
  if (positions.length === 0) return true
  const checked = await ask(work, positions)
  if (checked.kind === 'down') return false
  const open = checked.kind === 'answered' ? checked.open : undefined
  await keep(work, positions.filter((position) => open?.has(position) !== true), checked)
  return open === undefined
}

/** A row that no answer names was not checked; nobody pays for it and nothing is cached. */
const NO_ANSWER: Unmade = {
  status: 'unknown', reason: 'no_answer', confidence: 0, fields: {},
}

/** Verdicts go to the cache before anything is emitted: a redelivered part finds them there. */
async function keep (
  work: Work, positions: readonly number[], checked: Exclude<Checked, { kind: 'down' }>
): Promise<void> {
  const { part, parts, outcomes } = work
  const recordOf = recordsOf({ checkedAtMs: parts.clock.now(), job: part.value.job })
  const fresh = new Array<CachedRecord | undefined>(outcomes.length).fill(undefined)
  for (const position of positions) {
    const verdict = checked.kind === 'answered' ? checked.verdicts.get(position) : undefined
    fresh[position] = recordOf(verdict ?? NO_ANSWER)
  }
  failpoint('verify.checked')
  await parts.cache.store(scopeOf(part), part.rows.tokens, fresh)
  failpoint('verify.kept')
  for (const position of positions) {
    const record = fresh[position]
    if (record === undefined) continue
    outcomes[position] = outcomeAt(work, position, { record, source: 'live' })
  }
}
