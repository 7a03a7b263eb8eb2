import type { Command } from 'commander'
import { ConfigError } from './config.ts'
import { isInfrastructure, isUntrusted } from './errors.ts'

/** Wrong usage of a command. The message says what to type instead; shown without a stack. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Runs a command. A failure that the user can fix is shown without a stack. */
export async function runCommand (program: Command): Promise<void> {
  try {
    await program.parseAsync()
  } catch (error) {
    process.stderr.write(`${explanationOf(error)}\n`)
    process.exitCode = 1
  }
}

const UNAVAILABLE = 'The stack does not respond. Start it with "npm run up".'
const UNTRUSTED = 'The certificate of the stack is not trusted. For a stack of "npm run up -- ' +
  '--secure", set NODE_EXTRA_CA_CERTS=<folder>/access/authority.pem before the command.'

/** What the user can do about a failed command; throws an error that is a bug. */
export function explanationOf (error: unknown): string {
  if (error instanceof ConfigError) {
    return `${error.message}\nOr start a local stack with "npm run up": the command uses it then.`
  }
  if (error instanceof UsageError || error instanceof RangeError) return error.message
  if (isInfrastructure(error)) return isUntrusted(error) ? UNTRUSTED : UNAVAILABLE
  throw error
}
