import { ApiError } from './api-error.ts'
import { CommandError } from './command-error.ts'
import { isLostConnection } from './patience.ts'

/** What to tell the person at the command line; undefined for a mistake of the program. */
export function failureText (error: unknown): string | undefined {
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
    return 'The service cannot be reached. Check the address; a local stack is started with ' +
      '"npm start". An unfinished submission goes on when the same command is run again.'
  }
  const { code, path } = error as NodeJS.ErrnoException
  if (code === undefined || path === undefined) return undefined
  return `${path}: ${(error as Error).message}`
}
