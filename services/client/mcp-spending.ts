import { CommandError, money, UsageError } from './terminal.ts'

/** Money of a session, USD micros. */
type SpendingFigures = {
  readonly limitMicros: number
  /** Charged for jobs that have ended. */
  readonly spentMicros: number
  /** Maximum prices of work that has not ended. */
  readonly reservedMicros: number
  /** What further work may cost. */
  readonly remainingMicros: number
}

/** What one piece of work, a job or a file, may cost. */
export type Reservation = {
  /** Raises the reservation to this price. Throws SpendingLimitError if the limit forbids it. */
  readonly cover: (micros: number) => void
  /** Replaces the reservation with the charge. Does nothing the second time. */
  readonly settle: (chargedMicros: number) => void
}

export type Spending = {
  readonly reserve: () => Reservation
  readonly figures: () => SpendingFigures
}

/** The session may not spend this much. Nothing was sent for it. */
class SpendingLimitError extends CommandError {
  override readonly name = 'SpendingLimitError'

  constructor (micros: number, figures: SpendingFigures) {
    const { limitMicros, spentMicros, reservedMicros, remainingMicros } = figures
    super(`spending_limit: this may cost up to ${money(micros)}, but only ` +
      `${money(remainingMicros)} of the limit of this session (${money(limitMicros)}) remains: ` +
      `${money(spentMicros)} is spent and ${money(reservedMicros)} reserved for work that has ` +
      'not ended. Verify fewer contacts, wait for running work to end, or ask the user to ' +
      'restart the server with a higher --max-spend.')
  }
}

/**
 * Counts what a session spends: the maximum price of everything that runs, and the charge of
 * everything that has ended. Their sum never exceeds the limit.
 */
export function createSpending (limitMicros: number): Spending {
  const reserved = new Map<symbol, number>()
  let spentMicros = 0
  const figures = (): SpendingFigures => {
    const reservedMicros = [...reserved.values()].reduce((sum, micros) => sum + micros, 0)
    const remainingMicros = limitMicros - spentMicros - reservedMicros
    return { limitMicros, spentMicros, reservedMicros, remainingMicros }
  }
  const reserve = (): Reservation => {
    const id = Symbol('reservation')
    reserved.set(id, 0)
    return {
      cover: micros => {
        const covered = reserved.get(id) ?? 0
        if (micros <= covered) return
        const now = figures()
        if (micros - covered > now.remainingMicros) throw new SpendingLimitError(micros, now)
        reserved.set(id, micros)
      },
      settle: chargedMicros => {
        // A resumed file also reports the charges of earlier sessions.
        spentMicros += Math.min(chargedMicros, reserved.get(id) ?? 0)
        reserved.delete(id)
      },
    }
  }
  return { reserve, figures }
}

const MAX_DOLLARS = 1_000_000

/** Parses dollars such as `5` or `2.50` to micros. Throws UsageError with the valid form. */
export function parseDollars (text: string): number {
  const [, dollars = '', fraction = ''] = /^(\d{1,7})(?:\.(\d{1,6}))?$/.exec(text) ?? []
  if (dollars === '' || Number(dollars) > MAX_DOLLARS) {
    throw new UsageError(`--max-spend ${text} is no amount of USD. Use a number like 5 or 2.50, ` +
      `at most ${MAX_DOLLARS}.`)
  }
  return Number(dollars) * 1_000_000 + Number(fraction.padEnd(6, '0'))
}
