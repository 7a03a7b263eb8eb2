import { createRequire } from 'node:module'
import { expect, it } from 'vitest'

const require = createRequire(import.meta.url)
const Runner = require('kafkajs/src/consumer/runner')

/** This fails without `deploy/patches`, whose effect no other test would notice at once. */
it('the runner of kafkajs, patched, keeps its place in the group while no broker is there',
  async () => {
    const done: string[] = []
    const { promise: fetched, resolve } = Promise.withResolvers<void>()
    let nodes: readonly string[] = []
    const logger = { namespace: () => logger, info () {}, warn () {}, error () {}, debug () {} }
    const runner = new Runner({
      logger,
      consumerGroup: {
        groupId: 'g',
        memberId: 'm',
        connect: async () => {},
        joinAndSync: async () => { done.push('join') },
        leave: async () => {},
        getNodeIds: () => nodes,
        findBrokersAgain: async () => {
          done.push('poll')
          if (done.length < 4) throw new Error('no broker yet')
          nodes = ['1']
        },
        fetch: async () => {
          resolve()
          await new Promise(setImmediate)
          return []
        },
        heartbeat: async () => {},
      },
      instrumentationEmitter: { emit: () => {} },
      retry: { initialRetryTime: 1, maxRetryTime: 2, retries: 5 },
      onCrash: (error: Error) => { done.push(`crash: ${error.message}`) },
      eachBatch: async () => {},
    })
    await runner.start()
    await fetched
    expect(done).toEqual(['join', 'poll', 'poll', 'poll'])
    await runner.stop()
  })
