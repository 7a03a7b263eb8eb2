import { describeBusFaults } from '../support/bus-fault-contract.ts'
import { describeReadingFaults } from '../support/bus-fault-reading.ts'
import { openKafkaFaultEnvironment } from '../support/bus-fault-environment.ts'
import { stackEnv } from '../support/stack.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultEnvironment((stackEnv().KAFKA_BROKERS ?? '').split(',')), describeReadingFaults)
