import { CommandError } from '../../client/terminal.ts'
import { describeAccessError } from '../../runtime/kafka/connection.ts'
import { UnsendableError } from '../../runtime/kafka/safe-producer.ts'
import { ConfigError } from '../../runtime/platform/config.ts'
import { isInfrastructure } from '../../runtime/platform/errors.ts'
import { createFeedProgram } from './command.ts'

try {
  await createFeedProgram().parseAsync()
} catch (error) {
  if (!(error instanceof Error)) throw error
  const isOfKafka = error.name.startsWith('KafkaJS')
  const isExpected = isOfKafka || isInfrastructure(error) ||
    [CommandError, ConfigError, UnsendableError].some(kind => error instanceof kind)
  if (!isExpected) throw error
  const reason = describeAccessError(error) ??
    (isOfKafka ? `Kafka failed (${error.name}): ${error.message}` : error.message)
  process.stderr.write(`feed: ${reason}\n`)
  process.exitCode = 1
}
// Reconnects of a lost connection would keep the process alive.
process.exit()
