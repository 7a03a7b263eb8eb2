import type { Command } from 'commander'
import { ConfigError } from './config.ts'
import { InfrastructureError, isInfrastructure, isUntrusted } from './errors.ts'

/** Wrong usage of a command. The message says what to type instead; shown without a stack. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError'
}

/** A command that may have done a part: the message says what remains and what to type. */
export class CommandFailure extends UsageError {
  override readonly name = 'CommandFailure'
}

/** Runs a command. A failure that the user can fix is shown without a stack. */
export async function runCommand (program: Pick<Command, 'parseAsync'>): Promise<void> {
  try {
    await program.parseAsync()
  } catch (error) {
    process.stderr.write(`${explanationOf(error)}\n`)
    process.exitCode = 1
  }
}

const CHECK = 'Check the addresses in the environment; for a local stack run "npm run up".'
const OR_LOCAL = 'Or start a local stack with "npm run up": the command uses it then.'
const UNTRUSTED = 'The certificate of the stack is not trusted. For a stack of "npm run up -- ' +
  '--secure", set NODE_EXTRA_CA_CERTS=<folder>/access/authority.pem before the command.'

/** What the user can do about a failed command; throws an error that is a bug. */
export function explanationOf (error: unknown): string {
  if (error instanceof ConfigError) {
    // A local stack has all settings, but does not correct an invalid one.
    const isIncomplete = error.faults.every(fault => / is missing\b/.test(fault))
    return isIncomplete ? `${error.message}\n${OR_LOCAL}` : error.message
  }
  if (error instanceof UsageError || error instanceof RangeError) return error.message
  if (isInfrastructure(error)) return isUntrusted(error) ? UNTRUSTED : failureOf(error)
  throw error
}

/** What failed. An InfrastructureError says what to check; an error of a library does not. */
function failureOf (error: unknown): string {
  if (!(error instanceof InfrastructureError)) {
    return `A dependency failed: ${reasonOf(error)}. ${CHECK}`
  }
  const { message, cause } = error
  return isInfrastructure(cause) ? `${message}: ${reasonOf(cause)}` : message
}

/** The first line of the innermost message: outer ones of sockets and retries say less. */
function reasonOf (error: unknown, depth = 5): string {
  if (!(error instanceof Error)) return String(error)
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause
  if (inner instanceof Error && depth > 0) return reasonOf(inner, depth - 1)
  return (error.message.split('\n', 1)[0] ?? '').replace(/\.$/, '')
}
