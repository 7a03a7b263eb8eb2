/** A failure that the user can fix. The message states the problem and what to do. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError'
}

/** Invalid arguments: the command did nothing. */
export class UsageError extends CommandError {
  override readonly name = 'UsageError'
}

/** The user interrupted the command and can resume it later. */
export class InterruptedError extends CommandError {
  override readonly name = 'InterruptedError'
}
