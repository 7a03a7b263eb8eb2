import type { Journal } from '../../schemas/types.ts'
import { AMOUNTS, areEqual, ZERO_AMOUNTS, post, type Amounts } from '../money/arithmetic.ts'
import type { JournalState } from './journal-state.ts'

type Movement = Pick<Journal, 'entryId' | 'type' | 'job' | 'amountMicros' | 'chargeMicros'>

/**
 * Reconstructs the single missing entry of a gap from the balances before and after it: a top-up or
 * adjustment, or the end of the only job with that reservation. Returns undefined when several
 * entries are missing or the movement is another one. Deterministic.
 */
export function missingEntry (journal: JournalState): Journal | undefined {
  const seq = journal.seq + 1
  const next = journal.afterGap.get(seq + 1)
  if (next === undefined) return undefined
  const before = minus(next, post(ZERO_AMOUNTS, next))
  const movement = movementOf(journal, seq, minus(before, journal.amounts))
  if (movement === undefined || !areEqual(post(journal.amounts, movement), before)) return undefined
  const reason = `reconstructed from entry ${next.seq}: the entry itself is lost`
  const { tenant, at } = next
  return { ...movement, ...before, tenant, seq, at, reason, header: null }
}

function movementOf ({ open }: JournalState, seq: number, moved: Amounts): Movement | undefined {
  const { fundedMicros, reservedMicros, chargedMicros } = moved
  if (fundedMicros !== 0) {
    const amounts = { amountMicros: fundedMicros, chargeMicros: 0 }
    return { entryId: `missing:${seq}`, type: 'adjust', job: '', ...amounts }
  }
  const amountMicros = -reservedMicros
  const [only, ...rest] = [...open.values()].filter(one => one.amountMicros === amountMicros)
  const isEnd = amountMicros > 0 && chargedMicros >= 0 && chargedMicros <= amountMicros
  if (!isEnd || only === undefined || rest.length > 0) return undefined
  const { job } = only
  const amounts = { amountMicros, chargeMicros: chargedMicros }
  return { entryId: `${job}:settle`, type: 'settle', job, ...amounts }
}

function minus (one: Amounts, other: Amounts): Amounts {
  const differences = AMOUNTS.map(name => [name, one[name] - other[name]])
  return Object.fromEntries(differences) as Amounts
}
