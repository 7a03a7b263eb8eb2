import { formatUsd } from '../money/prices.ts'

/** HTML source. Every other text is escaped when a template inserts it. */
export type Html = { readonly html: string }

export type HtmlValue =
  Html | string | number | false | null | undefined | readonly HtmlValue[]

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\'': '&#39;',
}

/**
 * A tagged template for HTML. It escapes values for text and quoted attributes, concatenates lists,
 * and inserts nothing for `false`, `null` and `undefined`.
 */
export function html (texts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  const source = texts.map((text, index) =>
    text + (index < values.length ? toText(values[index]) : ''))
  return { html: source.join('') }
}

function toText (value: HtmlValue): string {
  if (value === false || value === null || value === undefined) return ''
  if (typeof value === 'string') return value.replace(/[&<>"']/g, char => ESCAPES[char] ?? char)
  if (typeof value === 'number') return String(value)
  return 'html' in value ? value.html : value.map(toText).join('')
}

const COUNT = new Intl.NumberFormat('en-US')
/** Decimals of every amount: rows cost fractions of a cent. */
const DECIMALS = 4

/** A whole number with separators: `1,234,567`. */
export function count (number: number): string {
  return COUNT.format(number)
}

/** An amount of USD micros with four decimals, more only where it has them: `$1,234.5000`. */
export function money (micros: number): string {
  const [whole = '', fraction = ''] = formatUsd(Math.abs(micros)).split('.')
  const digits = fraction.replace(/0+$/, '').padEnd(DECIMALS, '0')
  return `${micros < 0 ? '−' : ''}$${COUNT.format(BigInt(whole))}.${digits}`
}

/** The same with a `+` for positive amounts. */
export function signedMoney (micros: number): string {
  return micros > 0 ? `+${money(micros)}` : money(micros)
}

/** The time zone if the runtime knows it, else UTC; `name` may come from a browser. */
export function parseZone (name: string | undefined): string {
  try {
    return new Intl.DateTimeFormat('en-GB', { timeZone: name ?? 'UTC' }).resolvedOptions().timeZone
  } catch {
    return 'UTC'
  }
}

/**
 * A `time` element: its text is in a time zone (`21 Nov 2026, 23:47:05`), its attributes are in ISO
 * 8601.
 */
export function time (when: number | string, zone: string): Html {
  const date = new Date(when)
  const iso = date.toISOString()
  const text = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone, dateStyle: 'medium', timeStyle: 'medium',
  }).format(date)
  return html`<time datetime="${iso}" title="${iso}">${text}</time>`
}

/** A percentage: `12.5 %`. The share of an empty whole is 0. */
export function share (part: number, whole: number): string {
  const percent = whole === 0 ? 0 : 100 * part / whole
  return `${percent.toFixed(1).replace(/\.0$/, '')} %`
}
