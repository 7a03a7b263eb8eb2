import { inspect } from 'node:util'
import { CommanderError, type Command } from 'commander'
import { ConfigError } from './config.ts'
import {
  FatalError, InfrastructureError, isInfrastructure, isUntrusted, findFailedStore,
} from './errors.ts'

/** Wrong usage of a command. The message says what to type instead; shown without a stack. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError'
}

/** A command that may have done a part: the message says what remains and what to type. */
export class CommandFailure extends UsageError {
  override readonly name = 'CommandFailure'
}

/**
 * The exit code of a command that could not do its work. A command that did it and found something
 * wrong, or has left something undone, sets 1.
 */
const FAILED = 2

/** Runs a command. A failure that the user can fix is shown without a stack. */
export async function runCommand (program: Pick<Command, 'parseAsync'>): Promise<void> {
  // A program ends its work when the reader of its output, such as `head`, closes the pipe.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
  try {
    await program.parseAsync()
  } catch (error) {
    // Commander has printed the help, the version, or what is wrong with the arguments.
    const isPrinted = error instanceof CommanderError
    if (!isPrinted) process.stderr.write(`${explainError(error)}\n`)
    process.exitCode = isPrinted && error.exitCode === 0 ? 0 : FAILED
  }
}

const CHECK = 'Check the addresses in the environment; for a local stack run "npm run up".'
const WAIT = 'It may be overloaded: run the command again later, or with less load. Only if it ' +
  'is stopped, start it; for a local stack run "npm run up".'
const OR_LOCAL = 'Or start a local stack with "npm run up": the command uses it then.'
const UNTRUSTED = 'The certificate of the stack is not trusted. For a stack of "npm run up -- ' +
  '--secure", set NODE_EXTRA_CA_CERTS=<folder>/access/authority.pem before the command.'

/** What the user can do about a failed command; the stack of an error that is a bug. */
function explainError (error: unknown): string {
  if (error instanceof ConfigError) {
    // A local stack has all settings, but does not correct an invalid one.
    const isIncomplete = error.faults.every(fault => / is missing\b/.test(fault))
    return isIncomplete ? `${error.message}\n${OR_LOCAL}` : error.message
  }
  if (error instanceof UsageError || error instanceof RangeError || error instanceof FatalError) {
    return error.message
  }
  if (isInfrastructure(error)) return isUntrusted(error) ? UNTRUSTED : describeFailure(error)
  return inspect(error)
}

/** What failed. An InfrastructureError says what to check; an error of a store does not. */
function describeFailure (error: unknown): string {
  if (!(error instanceof InfrastructureError) || findFailedStore(error, 1) !== undefined) {
    return describeStore(error) ?? `A dependency failed: ${readReason(error)}. ${CHECK}`
  }
  const { message, cause } = error
  const inner = describeStore(cause) ?? (isInfrastructure(cause) ? readReason(cause) : undefined)
  return inner === undefined ? message : `${message}: ${inner}`
}

/** What failed and what to do, of an error for which the store is known. */
function describeStore (error: unknown): string | undefined {
  const store = findFailedStore(error)
  if (store === undefined) return undefined
  const reason = readReason(error)
  return /time(?:d )?-?out/i.test(reason)
    ? `${store} did not answer in time (${reason}). ${WAIT}`
    : `${store} failed: ${reason}. ${CHECK}`
}

/** The first line of the innermost message: outer ones of sockets and retries say less. */
function readReason (error: unknown, depth = 5): string {
  if (!(error instanceof Error)) return String(error)
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause
  if (inner instanceof Error && depth > 0) return readReason(inner, depth - 1)
  return (error.message.split('\n', 1)[0] ?? '').replace(/\.$/, '')
}
