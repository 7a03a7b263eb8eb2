import { describeBusFaults } from '../support/bus-fault-contract.ts'
import { describeGroupFaults } from '../support/bus-fault-groups.ts'
import { openKafkaFaultEnvironment } from '../support/bus-fault-environment.ts'
import { stackEnv } from '../support/stack.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultEnvironment((stackEnv().KAFKA_BROKERS ?? '').split(',')), describeGroupFaults)
