/**
 * Returns true for a name that is new, or for which it last returned true at least `intervalMs`
 * ago: for logs of what may happen very often.
 */
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
