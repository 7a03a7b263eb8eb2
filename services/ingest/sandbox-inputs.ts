import type { Mode } from '../accounts/tenant.ts'
import { unitPriceMicros, type Prices } from '../money/prices.ts'
import { SERVICES, type ContactKind } from '../results/columns.ts'
import type { ServiceSlug } from '../topology.ts'
import type { ApiError } from './errors.ts'

const REFUSED = 'the job or the quote is refused: 402 `insufficient_balance`'

/**
 * Inputs that simulate `insufficient_balance` for a job or quote of a test key, whose price is 0:
 * this number in any format, and this local part at any domain, before any `+tag`.
 */
export const SANDBOX_REFUSALS = {
  phone: { input: '+15005550402', means: REFUSED },
  email: { input: 'insufficient_balance@', means: REFUSED },
} as const satisfies Readonly<Record<ContactKind, object>>

/** Longer than any format of the number, so that long texts are skipped. */
const MAX_PHONE_CHARACTERS = 32

type RequestedJob = { readonly service: ServiceSlug, readonly inputs: readonly string[] }

/**
 * The error of a job of a test key with a sandbox input, like that of an empty wallet at live
 * prices. Live keys have no sandbox inputs.
 */
export function sandboxRefusal (
  { service, inputs }: RequestedJob,
  { mode, prices }: { readonly mode: Mode, readonly prices: Prices }
): ApiError | undefined {
  if (mode !== 'test') return undefined
  const isMagic = SERVICES[service].kind === 'phone' ? isSandboxPhone : isSandboxEmail
  if (!inputs.some(isMagic)) return undefined
  const requiredMicros = unitPriceMicros(prices, service, 'live') * inputs.length
  return { code: 'insufficient_balance', more: { requiredMicros, availableMicros: 0 } }
}

function isSandboxPhone (input: string): boolean {
  return input.length <= MAX_PHONE_CHARACTERS &&
    `+${input.replace(/\D/g, '')}` === SANDBOX_REFUSALS.phone.input
}

function isSandboxEmail (input: string): boolean {
  return /^\s*insufficient_balance(\+[^@]*)?@[^@]+$/i.test(input)
}
