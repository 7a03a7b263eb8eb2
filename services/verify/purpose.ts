import type { ServiceSlug } from '../topology.ts'
import type { ProviderVerdict } from './provider.ts'

/**
 * The verdict if it has what the service exists for, else `unknown`: only verdicts are charged. A
 * carrier service exists for a carrier or a network code, a messenger for the registration, by
 * which a number is `invalid` or not. Equal verdicts stay one object.
 */
export function verdictFor (service: ServiceSlug, verdict: ProviderVerdict): ProviderVerdict {
  if (verdict.status === 'unknown') return verdict
  if (service === 'carrier-single' || service === 'carrier-lookup') return withCarrier(verdict)
  if (service === 'whatsapp' || service === 'telegram') return withAccount(service, verdict)
  return verdict
}

const withoutCarrier = new WeakMap<ProviderVerdict, ProviderVerdict>()

function withCarrier (verdict: ProviderVerdict): ProviderVerdict {
  const { carrier, mcc, mnc } = verdict.fields
  if (carrier !== undefined || (mcc !== undefined && mnc !== undefined)) return verdict
  const known = withoutCarrier.get(verdict)
  if (known !== undefined) return known
  const reason = verdict.status === 'invalid' ? verdict.reason : 'carrier_unknown'
  const unknown = { ...verdict, status: 'unknown', reason, confidence: 0 } as const
  withoutCarrier.set(verdict, unknown)
  return unknown
}

const UNCLEAR: ProviderVerdict = {
  status: 'unknown', reason: 'unclear_answer', confidence: 0, fields: {},
}

function withAccount (
  service: 'whatsapp' | 'telegram', verdict: ProviderVerdict
): ProviderVerdict {
  const registered = verdict.fields[service]
  const isInvalid = verdict.status === 'invalid'
  if (registered !== String(!isInvalid)) return UNCLEAR
  return isInvalid || verdict.reason !== 'not_registered' ? verdict : UNCLEAR
}
