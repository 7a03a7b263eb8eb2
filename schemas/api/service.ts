import { Type } from 'typebox'

/** Every service of the interface, by its slug. */
export const API_SERVICES = [
  'phone-validation', 'whatsapp', 'telegram', 'carrier-single', 'carrier-lookup',
  'email-validation',
] as const

/** A service's slug in a request; a text to clients, since services may be added. */
export const serviceSlug = (description: string) => Type.Unsafe<string>({
  type: 'string', enum: [...API_SERVICES], description,
})
