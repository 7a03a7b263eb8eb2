import { describe, expect, it } from 'vitest'
import { runSeeds, wordsOf, type Runs } from './runs.ts'

/** A fixed number, so that every run proves the same; `npm run test:full` runs more. */
const SEEDS = Number(process.env.SIMULATION_SEEDS ?? 200)

type Count = 'crashes' | 'corrupted' | 'lostKeys' | 'calls' | 'cancelled' | 'deaths' |
  'verified' | 'followed'

const sum = ({ runs }: Runs, of: Count) =>
  runs.reduce((total, run) => total + run[of], 0)

const every = ({ runs }: Runs, of: 'outcomes' | 'broken' | 'losses') =>
  [...new Set(runs.flatMap(run => run[of]))].toSorted()

describe('the pipeline', () => {
  it('keeps every invariant without faults', async () => {
    const faultFree = await runSeeds({ first: 1, seeds: 8, faultFree: true })
    expect(faultFree.failed && wordsOf(faultFree.failed)).toBeUndefined()
    expect(every(faultFree, 'outcomes')).toContain('accepted')
    expect(sum(faultFree, 'calls')).toBeGreaterThan(0)
    expect(sum(faultFree, 'crashes')).toBe(0)
    expect(sum(faultFree, 'verified')).toBeGreaterThan(8)
    expect(sum(faultFree, 'followed')).toBeGreaterThan(8)
  })

  it('does the same again for the same seed, whatever ran before it', async () => {
    const traces = ({ runs }: Runs) => runs.map(({ trace }) => trace)
    const [once, again] = await Promise.all([
      runSeeds({ first: 1, seeds: 12, workers: 1 }), runSeeds({ first: 5, seeds: 8, workers: 1 }),
    ])
    expect(traces(again)).toEqual(traces(once).slice(4))
    expect(new Set(traces(once)).size).toBe(12)
  })

  it('keeps every invariant through crashes, duplicates, outages, poison and losses', async () => {
    const all = await runSeeds({ first: 1, seeds: SEEDS })
    expect(all.failed && wordsOf(all.failed)).toBeUndefined()
    console.log(`seeds 1 to ${all.last} in ${all.seconds.toFixed(1)} s`)
    // A run that nothing happened to proves nothing.
    expect(sum(all, 'crashes')).toBeGreaterThan(all.last)
    expect([sum(all, 'corrupted') > 0, sum(all, 'lostKeys') > 0]).toEqual([true, true])
    expect(sum(all, 'cancelled')).toBeGreaterThan(all.last / 40)
    expect(every(all, 'losses')).toEqual(['empty', 'old', 'restart'])
    expect(sum(all, 'deaths')).toBeGreaterThan(0)
    expect(sum(all, 'verified')).toBeGreaterThan(all.last)
    expect(sum(all, 'followed')).toBeGreaterThan(all.last)
    expect(every(all, 'outcomes')).toEqual(['accepted', 'refused'])
    expect(every(all, 'broken')).toEqual(
      ['rows.completed', 'rows.normalized', 'rows.retry', 'rows.submitted', 'rows.to-verify'])
  })
})
