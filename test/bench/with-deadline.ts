const DEADLINE_MS = 60_000

/** Resolves as the work does; rejects with its name when it takes longer than a minute. */
export async function withDeadline<T> (name: string, work: Promise<T>): Promise<T> {
  const deadline = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => deadline.reject(new Error(`${name} did not end within ${DEADLINE_MS} ms`)), DEADLINE_MS)
  try {
    return await Promise.race([work, deadline.promise])
  } finally {
    clearTimeout(timer)
  }
}
