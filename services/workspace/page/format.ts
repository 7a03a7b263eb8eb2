import { usdOf } from '../amount.ts'
import { html, type Html } from './html.ts'

const COUNT = new Intl.NumberFormat('en-US')
/** Cents are always shown, smaller parts of a dollar where there are any. */
const CENTS = 2

/** A whole number for people: `1,234,567`. */
export function count (number: number): string {
  return COUNT.format(number)
}

/** An amount of USD micros with every digit that matters, and at least cents: `$1,234.5025`. */
export function money (micros: number): string {
  const [whole = '', fraction = ''] = usdOf(Math.abs(micros)).split('.')
  const digits = fraction.replace(/0+$/, '').padEnd(CENTS, '0')
  return `${micros < 0 ? '−' : ''}$${COUNT.format(BigInt(whole))}.${digits}`
}

/** The same with a sign in front, for movements; nothing moved has none. */
export function signedMoney (micros: number): string {
  return micros > 0 ? `+${money(micros)}` : money(micros)
}

/** The zone if the runtime knows it, and UTC for anything else a browser may send. */
export function zoneOf (name: string | undefined): string {
  try {
    return new Intl.DateTimeFormat('en-GB', { timeZone: name ?? 'UTC' }).resolvedOptions().timeZone
  } catch {
    return 'UTC'
  }
}

/** A moment in a zone: `21 Nov 2026, 23:47:05`. */
export function moment (ms: number, zone: string): string {
  return new Intl.DateTimeFormat('en-GB', {
    timeZone: zone, dateStyle: 'medium', timeStyle: 'medium',
  }).format(ms)
}

/** A `time` element: the viewer's zone to read, ISO 8601 in the title and for programs. */
export function time (when: number | string, zone: string): Html {
  const date = new Date(when)
  const iso = date.toISOString()
  return html`<time datetime="${iso}" title="${iso}">${moment(date.getTime(), zone)}</time>`
}

/** The share of a part in a whole: `12.5 %`; the share of nothing is 0. */
export function share (part: number, whole: number): string {
  const percent = whole === 0 ? 0 : 100 * part / whole
  return `${percent.toFixed(1).replace(/\.0$/, '')} %`
}
