import type { Journal } from '../../schemas/types.ts'
import { AMOUNTS, areEqual, NOTHING, post, type Amounts } from '../money/arithmetic.ts'
import type { Fold } from './journal-fold.ts'

type Movement = Pick<Journal, 'entryId' | 'type' | 'job' | 'amountMicros' | 'chargeMicros'>

/**
 * The one entry between a journal and what came behind its gap, told from the balances on both
 * sides: money that was added or taken away, or the end of the only job that had reserved so much.
 * Undefined when more than one is missing, or it was something else. It is the same each time.
 */
export function missingEntry (fold: Fold): Journal | undefined {
  const seq = fold.seq + 1
  const behind = fold.held.get(seq + 1)
  if (behind === undefined) return undefined
  const before = minus(behind, post(NOTHING, behind))
  const movement = movementOf(fold, seq, minus(before, fold.amounts))
  if (movement === undefined || !areEqual(post(fold.amounts, movement), before)) return undefined
  const reason = `told from entry ${behind.seq}: the entry itself is nowhere`
  const { tenant, at } = behind
  return { ...movement, ...before, tenant, seq, at, reason, header: null }
}

function movementOf ({ open }: Fold, seq: number, moved: Amounts): Movement | undefined {
  const { fundedMicros, reservedMicros, chargedMicros } = moved
  if (fundedMicros !== 0) {
    const amounts = { amountMicros: fundedMicros, chargeMicros: 0 }
    return { entryId: `missing:${seq}`, type: 'adjust', job: '', ...amounts }
  }
  const amountMicros = -reservedMicros
  const [only, ...others] = [...open.values()].filter(one => one.amountMicros === amountMicros)
  const isEnd = amountMicros > 0 && chargedMicros >= 0 && chargedMicros <= amountMicros
  if (!isEnd || only === undefined || others.length > 0) return undefined
  const { job } = only
  const amounts = { amountMicros, chargeMicros: chargedMicros }
  return { entryId: `${job}:settle`, type: 'settle', job, ...amounts }
}

function minus (one: Amounts, other: Amounts): Amounts {
  const differences = AMOUNTS.map(name => [name, one[name] - other[name]])
  return Object.fromEntries(differences) as Amounts
}
