import { describeBusFaults } from '../support/kafka/bus-fault-contract.ts'
import { describeSendingFaults } from '../support/kafka/bus-fault-sending.ts'
import { openKafkaFaultEnvironment } from '../support/kafka/bus-fault-environment.ts'
import { stackEnv } from '../support/stacks/stack.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultEnvironment((stackEnv().KAFKA_BROKERS ?? '').split(',')), describeSendingFaults)
