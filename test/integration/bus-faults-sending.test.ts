import { describeBusFaults } from '../support/bus-fault-contract.ts'
import { describeSendingFaults } from '../support/bus-fault-sending.ts'
import { openKafkaFaultWorld } from '../support/bus-fault-world.ts'
import { stackEnv } from '../support/stack.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultWorld((stackEnv().KAFKA_BROKERS ?? '').split(',')), describeSendingFaults)
