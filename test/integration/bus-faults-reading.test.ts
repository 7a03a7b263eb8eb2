import { describeBusFaults } from '../support/kafka/bus-fault-contract.ts'
import { describeReadingFaults } from '../support/kafka/bus-fault-reading.ts'
import { openKafkaFaultEnvironment } from '../support/kafka/bus-fault-environment.ts'
import { stackEnv } from '../support/stacks/stack.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultEnvironment((stackEnv().KAFKA_BROKERS ?? '').split(',')), describeReadingFaults)
