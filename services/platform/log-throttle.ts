/** Limits logs of frequent events: true for each name at most once per interval. */
export function createLogThrottle (
  intervalMs: number, now: () => number = () => performance.now()
): (name: string) => boolean {
  const lastAtMs = new Map<string, number>()
  return name => {
    const nowMs = now()
    if (nowMs - (lastAtMs.get(name) ?? -Infinity) < intervalMs) return false
    lastAtMs.set(name, nowMs)
    return true
  }
}
