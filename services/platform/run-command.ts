import type { Command } from 'commander'
import { ConfigError } from './config.ts'
import { isInfrastructure, isUntrusted } from './errors.ts'

/** Says what to type instead; shown without a stack. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Runs what the command line asks for; a failure that people can mend is told without a stack. */
export async function runCommand (program: Command): Promise<void> {
  try {
    await program.parseAsync()
  } catch (error) {
    process.stderr.write(`${explanationOf(error)}\n`)
    process.exitCode = 1
  }
}

const NO_ANSWER = 'The stack does not answer. Start it with "npm run up".'
const UNTRUSTED = 'The certificate of the stack is not trusted. Of one that "npm run up -- ' +
  '--secure" runs, say NODE_EXTRA_CA_CERTS=<folder>/access/authority.pem before the command.'

/** What to do about a failure of a command; throws it where it is a fault of the program. */
export function explanationOf (error: unknown): string {
  if (error instanceof ConfigError) {
    return `${error.message}\nOr start a local stack, whose addresses are used then: "npm run up".`
  }
  if (error instanceof UsageError || error instanceof RangeError) return error.message
  if (isInfrastructure(error)) return isUntrusted(error) ? UNTRUSTED : NO_ANSWER
  throw error
}
