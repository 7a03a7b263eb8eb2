import { CommandError } from './terminal.ts'
import { createFeedProgram } from './feed-command.ts'

try {
  await createFeedProgram().parseAsync()
} catch (error) {
  if (error instanceof CommandError) process.stderr.write(`feed: ${error.message}\n`)
  else if (error instanceof Error && error.name.startsWith('KafkaJS')) {
    process.stderr.write(`feed: Kafka failed (${error.name}): ${error.message}\n`)
  } else throw error
  process.exitCode = 1
}
// Reconnects of a lost connection would keep the process alive.
process.exit()
