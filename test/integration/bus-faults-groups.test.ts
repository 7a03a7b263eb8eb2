import { describeBusFaults } from '../support/bus-fault-contract.ts'
import { describeGroupFaults } from '../support/bus-fault-groups.ts'
import { openKafkaFaultWorld } from '../support/bus-fault-world.ts'
import { stackEnv } from '../support/stack.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultWorld((stackEnv().KAFKA_BROKERS ?? '').split(',')), describeGroupFaults)
