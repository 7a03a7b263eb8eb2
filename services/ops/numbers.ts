import { UsageError } from '../lib/run-command.ts'

/** A number above 0 that was typed; throws UsageError for any other text. */
export function positiveOf (option: string, text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number) && number > 0) return number
  throw new UsageError(`${option} is a number above 0, for example ${option} 10.`)
}

/** A whole number from 0 that was typed; throws UsageError for any other text. */
export function wholeOf (option: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new UsageError(`${option} is a whole number from 0, for example ${option} 0.`)
}

/** Rounded to so many digits after the point, for answers that people and scripts read. */
export function rounded (number: number, digits = 1): number {
  return Number(number.toFixed(digits))
}
