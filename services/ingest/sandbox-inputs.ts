import type { Mode } from '../accounts/tenant.ts'
import { unitPriceMicros, type Prices } from '../money/prices.ts'
import { SERVICES, type ContactKind } from '../results/columns.ts'
import type { ServiceSlug } from '../topology.ts'
import type { ApiError } from './errors.ts'

const REFUSED = 'the job or the quote is refused: 402 `insufficient_balance`'

/**
 * Inputs that refuse a job or a quote of a test key for want of money, which its prices of 0 never
 * do: this number however it is spaced, and this local part at any domain, before any `+tag`.
 */
export const SANDBOX_REFUSALS = {
  phone: { input: '+15005550402', means: REFUSED },
  email: { input: 'insufficient_balance@', means: REFUSED },
} as const satisfies Readonly<Record<ContactKind, object>>

/** Longer than the magic number in any writing, so that long texts need not be looked at. */
const MAX_PHONE_CHARACTERS = 32

type Wanted = { readonly service: ServiceSlug, readonly inputs: readonly string[] }

/**
 * The refusal that a job of a test key asks for by a magic input, as an empty wallet would give it
 * at the price of live keys. Live keys have no magic.
 */
export function sandboxRefusal (
  { service, inputs }: Wanted, { mode, prices }: { readonly mode: Mode, readonly prices: Prices }
): ApiError | undefined {
  if (mode !== 'test') return undefined
  const isMagic = SERVICES[service].kind === 'phone' ? isMagicPhone : isMagicEmail
  if (!inputs.some(isMagic)) return undefined
  const requiredMicros = unitPriceMicros(prices, service, 'live') * inputs.length
  return { code: 'insufficient_balance', more: { requiredMicros, availableMicros: 0 } }
}

function isMagicPhone (input: string): boolean {
  return input.length <= MAX_PHONE_CHARACTERS &&
    `+${input.replace(/\D/g, '')}` === SANDBOX_REFUSALS.phone.input
}

function isMagicEmail (input: string): boolean {
  return /^\s*insufficient_balance(\+[^@]*)?@[^@]+$/i.test(input)
}
