import { createRequire } from 'node:module'
import { expect, it } from 'vitest'

const require = createRequire(import.meta.url)
const BrokerPool = require('kafkajs/src/cluster/brokerPool')
const { KafkaJSConnectionError } = require('kafkajs')

const PLACE = { host: 'kafka', port: 9092 }
const logger = { namespace: () => logger, error: () => {}, warn: () => {}, debug: () => {} }

it('a client whose only broker is removed while it connects goes on until it answers', async () => {
  const pool = new BrokerPool({
    connectionPoolBuilder: { build: async () => PLACE }, logger, retry: { initialRetryTime: 1 },
  })
  let tries = 0
  const broker = {
    nodeId: 1,
    connectionPool: PLACE,
    isConnected: () => false,
    disconnect: async () => {},
    connect: async () => {
      tries += 1
      // Another request loses its connection to the broker before the next try.
      setImmediate(() => {
        pool.brokers = { 1: broker }
        pool.removeBroker(PLACE)
      })
      if (tries < 4) throw new KafkaJSConnectionError('connect ECONNREFUSED')
    },
  }
  pool.createBroker = () => broker
  await pool.connect()
  expect(tries).toBe(4)
})
