import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alignAccess } from '../../deploy/provision.ts'
import { createTopics } from '../../deploy/provision/topics.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import { kafkaOptionsOf, type KafkaConnection } from '../../services/runtime/kafka/connection.ts'
import { kafkaTypeOf } from '../../services/runtime/kafka/errors.ts'
import { startComposeBroker, type ComposeBroker } from '../support/kafka/compose-broker.ts'
import { eventually } from '../support/eventually.ts'

let broker: ComposeBroker
beforeAll(async () => { broker = await startComposeBroker() })
afterAll(() => broker?.close())

/** `done`, or the name of the error that the broker answered a message with. */
async function sent (connection: KafkaConnection, topic: string): Promise<string> {
  const kafka = new Kafka({
    ...kafkaOptionsOf(connection), logLevel: logLevel.NOTHING, retry: { retries: 2 },
  })
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  try {
    await producer.connect()
    await producer.send({ topic, messages: [{ key: 'key', value: null }] })
    return 'done'
  } catch (error) {
    return kafkaTypeOf(error) || (error as Error).name
  } finally {
    await producer.disconnect()
  }
}

describe('the broker of compose.yaml', () => {
  it('allows each stage what provision grants, and nothing without a password', async () => {
    const say = () => {}
    const connection = broker.as('admin')
    await createTopics({ connection, say })
    const denied = 'TOPIC_AUTHORIZATION_FAILED'
    expect(await sent(broker.as('verify'), 'verify.dead')).toBe(denied)
    await withAdmin(connection, admin => alignAccess(admin, say))
    // A broker receives new rules from its controller.
    await eventually(async () => {
      expect(await sent(broker.as('verify'), 'verify.dead')).toBe('done')
      expect(await sent(broker.as('ledger'), 'wallet.journal')).toBe('done')
    })
    expect(await sent(broker.as('verify'), 'wallet.journal')).toBe(denied)
    const wrong = { mechanism: 'plain', username: 'verify', password: 'wrong' } as const
    expect(await sent({ brokers: [broker.address], sasl: wrong }, 'verify.dead'))
      .toBe('KafkaJSSASLAuthenticationError')
  })
})
