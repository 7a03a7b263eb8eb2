/** What there is to read, and what was read of it. */
export type Amount = { readonly entries: number, readonly rows: number }

/** On two cores, with the stack beside it. */
const ENTRIES_A_SECOND = 50_000
const ROWS_A_SECOND = 50_000
const SAY_EVERY_MS = 5_000

const secondsOf = ({ entries, rows }: Amount) =>
  entries / ENTRIES_A_SECOND + rows / ROWS_A_SECOND

/**
 * Says at once how much there is to read and about how long that takes, and every five seconds how
 * far it is. Rows are an estimate. `now` is in milliseconds.
 */
export function startProgress (
  all: Amount & { readonly tenants: number },
  { say, now = () => performance.now() }:
  { readonly say: (line: string) => void, readonly now?: () => number }
): (more: Amount) => void {
  const startedMs = now()
  let saidMs = startedMs
  let read: Amount = { entries: 0, rows: 0 }
  say(`reading ${all.entries} journal entries and about ${all.rows} rows of results of ` +
    `${all.tenants} tenants: ${timeText(secondsOf(all))}`)
  return more => {
    read = { entries: read.entries + more.entries, rows: read.rows + more.rows }
    if (now() - saidMs < SAY_EVERY_MS) return
    saidMs = now()
    const share = Math.min(secondsOf(read) / secondsOf(all), 1)
    const leftSeconds = (saidMs - startedMs) / 1_000 * (1 - share) / share
    say(`${Math.floor(share * 100)} % read, ${timeText(leftSeconds)} left`)
  }
}

function timeText (seconds: number): string {
  if (seconds < 60) return 'less than a minute'
  return seconds < 7_200
    ? `about ${Math.round(seconds / 60)} minutes`
    : `about ${Math.round(seconds / 3_600)} hours`
}
