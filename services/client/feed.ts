import { createFeedProgram } from './feed-command.ts'
import { FeedError } from './feed-topics.ts'

try {
  await createFeedProgram().parseAsync()
} catch (error) {
  if (error instanceof FeedError) process.stderr.write(`feed: ${error.message}\n`)
  else if (isKafka(error)) {
    process.stderr.write(`feed: the brokers do not answer as they should: ${error.message}\n`)
  } else throw error
  process.exitCode = 1
}
// A lost connection may still hold the process.
process.exit()

function isKafka (error: unknown): error is Error {
  return error instanceof Error && error.name.startsWith('KafkaJS')
}
