import { ConfigError } from '../lib/config.ts'
import { isInfrastructure } from '../lib/errors.ts'
import { createProgram } from './program.ts'
import { UsageError } from './usage.ts'

try {
  await createProgram().parseAsync()
} catch (error) {
  process.stderr.write(`${explanationOf(error)}\n`)
  process.exitCode = 1
}

function explanationOf (error: unknown): string {
  if (error instanceof ConfigError) {
    return `${error.message}\nOr start a local stack, whose addresses are used then: "npm run up".`
  }
  if (error instanceof UsageError) return error.message
  if (isInfrastructure(error)) return 'The stack does not answer. Start it with "npm run up".'
  throw error
}
