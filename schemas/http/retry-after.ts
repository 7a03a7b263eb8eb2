const SECONDS = /^\d{1,9}$/
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const MONTH = `(?<month>${MONTHS.join('|')})`
const TIME = String.raw`(?<time>\d\d:\d\d:\d\d)`

/** The three forms of a date that a recipient must accept (RFC 9110, 5.6.7). */
const DATES = [
  // IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
  new RegExp(String.raw`^[A-Z][a-z]{2}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT$`),
  // rfc850-date: Sunday, 06-Nov-94 08:49:37 GMT
  new RegExp(String.raw`^[A-Z][a-z]{5,8}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT$`),
  // asctime-date: Sun Nov  6 08:49:37 1994
  new RegExp(String.raw`^[A-Z][a-z]{2} ${MONTH} (?<day>[ \d]\d) ${TIME} (?<year>\d{4})$`),
]

const MAX_YEARS_AHEAD = 50

/**
 * The wait that a Retry-After header asks for, in ms: seconds, or a date in one of the three forms
 * of HTTP (RFC 9110, 10.2.3). 0 for a date that has passed, undefined for anything else.
 */
export function parseRetryAfter (
  header: string | null | undefined, nowMs: number
): number | undefined {
  const text = header?.trim() ?? ''
  if (SECONDS.test(text)) return Number(text) * 1_000
  const atMs = parseHttpDate(text, nowMs)
  return atMs === undefined ? undefined : Math.max(0, atMs - nowMs)
}

function parseHttpDate (text: string, nowMs: number): number | undefined {
  for (const form of DATES) {
    const { day, month, year, time } = form.exec(text)?.groups ?? {}
    if (day === undefined || month === undefined || year === undefined) continue
    const number = String(MONTHS.indexOf(month) + 1).padStart(2, '0')
    const date = `${number}-${day.replace(' ', '0')}T${time}Z`
    const atMs = Date.parse(`${year.length === 2 ? fullYear(year, nowMs) : year}-${date}`)
    return Number.isNaN(atMs) ? undefined : atMs
  }
  return undefined
}

/** A year of two digits that seems over 50 years ahead is the last such year in the past. */
function fullYear (lastDigits: string, nowMs: number): number {
  const thisYear = new Date(nowMs).getUTCFullYear()
  const year = thisYear - thisYear % 100 + Number(lastDigits)
  return year > thisYear + MAX_YEARS_AHEAD ? year - 100 : year
}
