import { ApiError, isLostConnection } from './transport.ts'

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

/** The message of a failure for the user; undefined for a bug of the program. */
export function failureMessage (error: unknown): string | undefined {
  if (error instanceof CommandError) return error.message
  if (error instanceof ApiError) {
    const { message, param, requestId } = error
    const details = [
      param === undefined ? undefined : `parameter ${param}`,
      requestId === undefined ? undefined : `request ${requestId}`,
    ].filter(detail => detail !== undefined)
    return details.length === 0 ? message : `${message} (${details.join(', ')})`
  }
  if (isLostConnection(error)) {
    return 'The service is unreachable. Check the address; "npm start" starts a local stack. Run ' +
      'the same command again to resume an unfinished submission.'
  }
  const { code, path } = error as NodeJS.ErrnoException
  if (code === undefined || path === undefined) return undefined
  return `${path}: ${(error as Error).message}`
}
