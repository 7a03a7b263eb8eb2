/** What the person at the command line can do something about; the message says what. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError'
}

/** A command that was given wrongly: nothing was begun. */
export class UsageError extends CommandError {
  override readonly name = 'UsageError'
}

/** Ended by the person at the command line, who may go on later. */
export class InterruptedError extends CommandError {
  override readonly name = 'InterruptedError'
}

export const EXIT_CODES = { ok: 0, failure: 1, usage: 2, interrupted: 130 } as const

/** The exit code that a command ends with after this failure. */
export function exitCodeOf (error: unknown): number {
  if (error instanceof UsageError) return EXIT_CODES.usage
  return error instanceof InterruptedError ? EXIT_CODES.interrupted : EXIT_CODES.failure
}
