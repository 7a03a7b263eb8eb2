const dollars = new Intl.NumberFormat('en-US', {
  style: 'currency', currency: 'USD', minimumFractionDigits: 2, maximumFractionDigits: 6,
})
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })

/** Micros as people read them, $1.50; only for showing, never for reckoning. */
export function money (micros: number): string {
  return dollars.format(micros / 1_000_000)
}

/** 12,345 */
export function count (number: number): string {
  return whole.format(number)
}

/** `1 job`, `2 jobs`. */
export function counted (number: number, thing: string): string {
  return `${count(number)} ${thing}${number === 1 ? '' : 's'}`
}

/** 7 s, 3 min 20 s, 2 h 5 min */
export function duration (seconds: number): string {
  const rounded = Math.round(seconds)
  if (rounded < 60) return `${rounded} s`
  const minutes = Math.floor(rounded / 60)
  if (minutes < 60) return `${minutes} min ${rounded % 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
