import { inject } from 'vitest'
import { describeBusContract } from '../support/bus-contract.ts'
import { openKafkaHarness } from '../support/kafka-harness.ts'

describeBusContract('kafkajs', () =>
  openKafkaHarness((inject('stack').KAFKA_BROKERS ?? '').split(',')))
