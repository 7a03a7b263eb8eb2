import type { Journal } from '../../schemas/types.ts'
import type { Job } from '../jobs/job.ts'
import { AMOUNTS, NOTHING, post, type Amounts } from '../money/fold.ts'
import type { Balance } from '../money/wallet.ts'
import { breachUnless, type Breach } from './audit-report.ts'

type Found = readonly Omit<Breach, 'tenant'>[]

/** What belongs to nobody else adds up, nothing is below zero, and reservations have their jobs. */
export function checkWallet (balance: Balance, openJobs: readonly Job[]): Found {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = balance
  const sum = availableMicros + reservedMicros + chargedMicros
  const reserved = openJobs.filter(({ ended }) => !ended)
    .reduce((total, { preflight }) => total + preflight.maxQuoteMicros, 0)
  return [
    ...breachUnless(sum === fundedMicros, {
      law: 'available + reserved + charged = funded',
      detail: `${availableMicros} + ${reservedMicros} + ${chargedMicros} is not ${fundedMicros}`,
    }),
    ...AMOUNTS.flatMap(name => breachUnless(balance[name] >= 0, {
      law: 'no amount is below zero', detail: `${name} is ${balance[name]}`,
    })),
    ...breachUnless(reserved === reservedMicros, {
      law: 'reserved = maximum quotes of jobs that have not ended',
      detail: `${reservedMicros} reserved, quotes of such jobs sum up to ${reserved}`,
    }),
  ]
}

const MAX_NAMED = 5

/** The copy has no row but those that services stored; any other is counted for nothing. */
export function checkForged (forged: readonly number[]): Found {
  const named = forged.slice(0, MAX_NAMED).join(', ') + (forged.length > MAX_NAMED ? ', ...' : '')
  return breachUnless(forged.length === 0, {
    law: 'every row of the copy is signed by a service',
    detail: `${forged.length} rows of the journal in ClickHouse have no authentic MAC and are ` +
      `left out: seq ${named}`,
  })
}

/**
 * The journal, with what the outbox still holds, leads to the balances that Redis has. What an
 * entry behind a gap begins with is told by itself alone.
 */
export function checkFold (
  copy: readonly Journal[], outbox: readonly Journal[], balance: Balance
): Found {
  const entries = new Map([...outbox, ...copy].map(entry => [entry.seq, entry]))
  let amounts: Amounts = NOTHING
  let last = 0
  const wrong = [...entries.values()].toSorted((a, b) => a.seq - b.seq).flatMap(entry => {
    amounts = entry.seq === last + 1 ? post(amounts, entry) : entry
    last = entry.seq
    const differing = AMOUNTS.filter(name => amounts[name] !== entry[name])
    return differing.map(name => ({
      law: 'each entry leads to the balances it names',
      job: entry.job,
      detail: `after entry ${entry.seq} ${name} should be ${amounts[name]}, not ${entry[name]}`,
    }))
  })
  return [
    ...wrong,
    ...AMOUNTS.flatMap(name => breachUnless(amounts[name] === balance[name], {
      law: 'the journal leads to the balances',
      detail: `${name} is ${balance[name]}, by the journal ${amounts[name]}`,
    })),
  ]
}
