import { describeBusFaults } from '../support/kafka/bus-fault-contract.ts'
import { describeGroupFaults } from '../support/kafka/bus-fault-groups.ts'
import { openKafkaFaultEnvironment } from '../support/kafka/bus-fault-environment.ts'
import { stackEnv } from '../support/stacks/stack.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultEnvironment((stackEnv().KAFKA_BROKERS ?? '').split(',')), describeGroupFaults)
