import { describe, expect, it } from 'vitest'
import { readOptions, SCENARIOS } from '../../bench/options.ts'

const DEFAULTS = {
  rows: 100_000,
  scale: 1,
  processes: 2,
  soakMinutes: 10,
  save: false,
  recoveryEntries: 1_000_000,
  smallSeconds: 60,
  partnerCounts: [10, 200, 1_000],
  recoveryJobs: 5_000,
}

describe('the options of the benchmark', () => {
  it.each([
    ['', {}, []],
    ['--growth --soak 0.5 --rows 2000', { rows: 2_000, soakMinutes: 0.5 }, ['growth', 'soak']],
    ['--all', {}, SCENARIOS],
    ['--all --soak 2', { soakMinutes: 2 }, SCENARIOS],
    ['--recovery 20000', { recoveryEntries: 20_000 }, ['recovery']],
    ['--recovery', {}, ['recovery']],
    ['--recovery-jobs 100', { recoveryJobs: 100 }, []],
    ['--partners 5,50', { partnerCounts: [5, 50] }, ['partners']],
    ['--partners', {}, ['partners']],
    ['--small 12', { smallSeconds: 12 }, ['small']],
    ['--small', {}, ['small']],
    ['--json a.json --profile b --save', { json: 'a.json', profile: 'b', save: true }, []],
  ])('are read from "%s"', (words, changes, scenarios) => {
    expect(readOptions(words.split(' ').filter(word => word !== '')))
      .toEqual({ ...DEFAULTS, ...changes, scenarios: new Set(scenarios) })
  })
})
