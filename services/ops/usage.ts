/** Says what to type instead; shown without a stack. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
