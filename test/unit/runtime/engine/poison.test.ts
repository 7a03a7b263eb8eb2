import { expect, it } from 'vitest'
import { createAttempts } from '../../../../services/runtime/engine/dead-letters.ts'
import { runStage, type FlushableStage } from '../../../../services/runtime/engine/engine.ts'
import { createLog } from '../../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { mayBlame } from '../../../simulation/supervisor.ts'
import { createMemoryBus } from '../../../support/kafka/memory-bus.ts'
import { seededRandom } from '../../../support/random.ts'
import { echoStage, plainCodec, textOf, type Read } from './engine-bench.ts'

const TOPIC = 'rows.submitted.small'
const MESSAGES = 60

type World = {
  /** Texts of the messages that end each process that decides them. */
  readonly killers: readonly string[]
  /** Probability that a process dies at any decision. */
  readonly death?: number
}

/** Runs a stage as processes that die, until all of its messages are committed or dead letters. */
async function runToEnd ({ killers, death = 0 }: World, seed = 1) {
  const random = seededRandom(seed)
  const bus = createMemoryBus({ seed, partitionsOf: () => 2, onFatal: () => {} })
  await bus.producer('test').send(Array.from({ length: MESSAGES }, (_, index) => ({
    topic: TOPIC, key: `k${index}`, value: Buffer.from(`m${index}`), headers: {},
  })))
  const texts = new Map<string, string>()
  const decided = new Set<string>()
  let deaths = 0
  let life = { hasFailed: false }
  let died = Promise.withResolvers<void>()
  const decide = async (messages: readonly Read[]) => {
    const isDeadly = messages.some(message => killers.includes(textOf(message)))
    // The dead do nothing more.
    if (life.hasFailed) return await new Promise<never>(() => {})
    // Chance ends processes at most twice in a row while they decide the same message alone.
    if (isDeadly || (random() < death && !mayBlame(texts, 'normalize'))) {
      life.hasFailed = true
      died.resolve()
      return await new Promise<never>(() => {})
    }
    for (const message of messages) decided.add(textOf(message))
    return messages.map(message => ({ completes: [message], emits: [] }))
  }
  const start = async (): Promise<FlushableStage> => {
    const mine = { hasFailed: false }
    life = mine
    died = Promise.withResolvers<void>()
    return await runStage(echoStage({ decide }), {
      bus: {
        ...bus,
        consume: async options => {
          const consumption = await bus.consume(options)
          died.promise.then(() => bus.crash(consumption)).catch(() => {})
          return consumption
        },
      },
      messageCodec: plainCodec,
      metrics: createMetrics(),
      log: createLog('test', { level: 'silent' }),
      subscriptions: [{ group: 'normalize.small', topics: [TOPIC], lane: 'small' }],
      flushHeldMs: 0,
      sleep: async () => {},
      attempts: createAttempts({
        store: {
          read: async name => texts.get(name),
          write: async (name, text) => { if (!mine.hasFailed) texts.set(name, text) },
          remove: async name => { if (!mine.hasFailed) texts.delete(name) },
        },
        process: `p${deaths}`,
        hasFailed: () => mine.hasFailed,
        log: createLog('test', { level: 'silent' }),
      }),
    })
  }
  for (; deaths < 200; deaths++) {
    await start()
    await Promise.race([died.promise, bus.idle()])
    if (!life.hasFailed) break
  }
  const letters = bus.messages('normalize.dead')
    .map(({ value, headers }) => `${value} ${headers['dead_reason']}`)
  return { letters: [...new Set(letters)].toSorted(), decided, deaths }
}

it('a message that kills each process is set aside after five deaths, and no other', async () => {
  const { letters, decided, deaths } = await runToEnd({ killers: ['m7'] })
  expect([letters, deaths]).toEqual([['m7 poison'], 5])
  expect(decided.size).toBe(MESSAGES - 1)
})

it('each of several messages that kill is set aside, in any partition', async () => {
  const killers = ['m3', 'm4', 'm20', 'm21', 'm59']
  for (let seed = 1; seed <= 5; seed++) {
    const { letters, decided } = await runToEnd({ killers }, seed)
    expect(letters).toEqual(killers.map(text => `${text} poison`).toSorted())
    expect(decided.size).toBe(MESSAGES - killers.length)
  }
})

it('no message is set aside for deaths that it has not caused', async () => {
  let total = 0
  for (let seed = 1; seed <= 50; seed++) {
    const { letters, decided, deaths } = await runToEnd({ killers: [], death: 0.15 }, seed)
    expect([letters, decided.size]).toEqual([[], MESSAGES])
    total += deaths
  }
  expect(total).toBeGreaterThan(100)
})
