import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startRedis, type PrivateRedis } from '../support/redis.ts'
import { breachesOf } from './oracle.ts'
import type { Faults } from './pipeline.ts'
import { sweepUp } from './sweeping.ts'
import { tell } from './story.ts'

/** `SIMULATION_SEEDS` and `SIMULATION_FIRST` run more, or one again that failed. */
const seeds = Number(process.env.SIMULATION_SEEDS ?? 400)
const first = Number(process.env.SIMULATION_FIRST ?? 1)

let state: PrivateRedis
let cache: PrivateRedis
beforeAll(async () => {
  [state, cache] = await Promise.all([startRedis(), startRedis()])
})
afterAll(async () => {
  await Promise.all([state, cache].map(server => server.stop()))
})

async function run (seed: number, faults: Faults) {
  const subscriber = state.connect()
  const setting = { redis: state.redis, cache: cache.redis, subscriber }
  const evidence = await tell(seed, faults, setting)
  try {
    await sweepUp(evidence, state.redis)
    return { breaches: await breachesOf(evidence, state.redis), evidence }
  } finally {
    await evidence.pipeline.stop()
    subscriber.disconnect()
  }
}

describe('the pipeline', () => {
  it('keeps every law while all is well', async () => {
    const { breaches, evidence } = await run(1, {
      crash: 0, duplicate: 0, providerDown: 0, poison: 0, rot: 0, keyLoss: 0,
    })
    expect(breaches).toEqual([])
    expect(evidence.sent.some(({ outcome }) => outcome.kind === 'accepted')).toBe(true)
    expect(evidence.pipeline.witness.calls()).toBeGreaterThan(0)
  })

  it(`keeps every law through crashes, repeats, outages and poison (${seeds} seeds)`, async () => {
    let crashes = 0
    let rotten = 0
    let lostKeys = 0
    const accepted = new Set<string>()
    const broken = new Set<string>()
    for (let seed = first; seed < first + seeds; seed++) {
      const { breaches, evidence } = await run(seed, {
        // Every third run shows that without broken messages no row is lost to a fault of ours.
        crash: 0.03,
        duplicate: 0.1,
        providerDown: 0.1,
        poison: [0, 0.02, 0.15][seed % 3] ?? 0,
        // So does every fourth for chunks that rot, and every fifth for keys that get lost.
        rot: seed % 4 === 0 ? 0.5 : 0,
        keyLoss: seed % 5 === 0 ? 0.01 : 0,
      })
      expect([`SIMULATION_FIRST=${seed} SIMULATION_SEEDS=1`, breaches])
        .toEqual([`SIMULATION_FIRST=${seed} SIMULATION_SEEDS=1`, []])
      crashes += evidence.pipeline.crashes()
      for (const { topic } of evidence.pipeline.poisoned) broken.add(topic)
      rotten += evidence.pipeline.rot.rotten.length
      lostKeys += evidence.pipeline.rot.lostKeys.size
      for (const { outcome } of evidence.sent) accepted.add(outcome.kind)
    }
    // A run that nothing happened to proves nothing.
    if (seeds >= 100) {
      expect(crashes).toBeGreaterThan(seeds)
      expect([rotten > 0, lostKeys > 0]).toEqual([true, true])
      expect([...accepted].toSorted()).toEqual(['accepted', 'refused'])
      expect([...broken].toSorted()).toEqual(
        ['rows.finished', 'rows.later', 'rows.missed', 'rows.normalized', 'rows.submitted'])
    }
  })
})
