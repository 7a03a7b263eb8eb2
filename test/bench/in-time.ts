const ANSWERS_WITHIN_MS = 60_000

/** What the work resolves with; rejects when that takes a minute, and says what it was. */
export async function inTime<T> (name: string, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Error(`${name} did not end within ${ANSWERS_WITHIN_MS} ms`)),
    ANSWERS_WITHIN_MS)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
