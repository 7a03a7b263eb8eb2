import type { Journal } from '../../schemas/types.ts'

/** The four amounts of a wallet, in USD micros. */
export type Amounts = {
  readonly availableMicros: number
  readonly reservedMicros: number
  readonly chargedMicros: number
  readonly fundedMicros: number
}

export const AMOUNTS = [
  'availableMicros', 'reservedMicros', 'chargedMicros', 'fundedMicros',
] as const satisfies readonly (keyof Amounts)[]

/** The amounts of a new wallet. */
export const ZERO_AMOUNTS: Amounts = {
  availableMicros: 0, reservedMicros: 0, chargedMicros: 0, fundedMicros: 0,
}

/** The amounts after a movement. */
export function post (
  amounts: Amounts,
  { type, amountMicros, chargeMicros }: Pick<Journal, 'type' | 'amountMicros' | 'chargeMicros'>
): Amounts {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  switch (type) {
    case 'topup':
    case 'adjust':
      return {
        ...amounts,
        availableMicros: availableMicros + amountMicros,
        fundedMicros: fundedMicros + amountMicros,
      }
    case 'reserve':
      return {
        ...amounts,
        availableMicros: availableMicros - amountMicros,
        reservedMicros: reservedMicros + amountMicros,
      }
    default:
      return {
        ...amounts,
        availableMicros: availableMicros + amountMicros - chargeMicros,
        reservedMicros: reservedMicros - amountMicros,
        chargedMicros: chargedMicros + chargeMicros,
      }
  }
}

/** Whether all four amounts are equal. */
export function areEqual (one: Amounts, other: Amounts): boolean {
  return AMOUNTS.every(name => one[name] === other[name])
}

/** The amounts as text, for reasons and logs. */
export function formatAmounts (amounts: Amounts): string {
  return AMOUNTS.map(name => `${name} ${amounts[name]}`).join(', ')
}
