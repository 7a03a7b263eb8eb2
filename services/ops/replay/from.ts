import { UsageError } from '../../lib/run-command.ts'

/** Where a group is to read again from. */
export type From =
  | { readonly kind: 'beginning' }
  | { readonly kind: 'offset', readonly offset: number }
  | { readonly kind: 'time', readonly atMs: number }

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d/

/**
 * An offset (digits), a time (ISO 8601, with its zone) or `beginning`.
 * @throws UsageError for any other text.
 */
export function fromOf (text: string): From {
  if (text === 'beginning') return { kind: 'beginning' }
  if (/^\d{1,15}$/.test(text)) return { kind: 'offset', offset: Number(text) }
  const atMs = ISO.test(text) && /(Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : NaN
  if (Number.isFinite(atMs)) return { kind: 'time', atMs }
  throw new UsageError('--from is an offset (1200), a time with its zone ' +
    '(2026-08-11T09:30:00Z) or "beginning".')
}
