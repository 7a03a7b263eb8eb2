import { describeBusFaults } from '../support/bus-fault-contract.ts'
import { describeSendingFaults } from '../support/bus-fault-sending.ts'
import { openKafkaFaultEnvironment } from '../support/bus-fault-environment.ts'
import { stackEnv } from '../support/stack.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultEnvironment((stackEnv().KAFKA_BROKERS ?? '').split(',')), describeSendingFaults)
