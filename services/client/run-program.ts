import { CommanderError } from 'commander'
import { ApiError } from './api-error.ts'
import { EXIT_CODES, exitCodeOf } from './command-error.ts'
import { failureText } from './failure-text.ts'
import { createClientProgram } from './program.ts'
import type { Surroundings } from './surroundings.ts'

/**
 * Runs one command and tells its exit code: 0 done, 1 failed, 2 wrongly called, 130 interrupted.
 * Rejects only with a mistake of the program itself.
 */
export async function runProgram (
  words: readonly string[], surroundings: Surroundings
): Promise<number> {
  try {
    await createClientProgram(surroundings).parseAsync([...words], { from: 'user' })
    return EXIT_CODES.ok
  } catch (error) {
    if (error instanceof CommanderError) {
      return error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage
    }
    // Whoever reads on, such as `head`, has seen enough.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return EXIT_CODES.ok
    const message = failureText(error)
    if (message === undefined) throw error
    if (words.includes('--json')) {
      const code = error instanceof ApiError ? { code: error.code } : {}
      surroundings.output.write(`${JSON.stringify({ error: { ...code, message } })}\n`)
    }
    surroundings.errors.write(`verification-jobs: ${message}\n`)
    return exitCodeOf(error)
  }
}
