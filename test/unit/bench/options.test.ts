import { describe, expect, it } from 'vitest'
import { readOptions, SCENARIOS } from '../../bench/options.ts'

describe('readOptions', () => {
  it('selects no scenario by default', () => {
    expect(readOptions([])).toEqual({
      rows: 100_000,
      scale: 1,
      processes: 2,
      scenarios: new Set(),
      soakMinutes: 10,
      save: false,
      recoveryEntries: 1_000_000,
      smallSeconds: 60,
      partnerCounts: [10, 200, 1_000],
      recoveryJobs: 5_000,
    })
  })

  it('selects single scenarios', () => {
    const { scenarios, soakMinutes, rows } =
      readOptions(['--growth', '--soak', '0.5', '--rows', '2000'])
    expect([...scenarios]).toEqual(['growth', 'soak'])
    expect([soakMinutes, rows]).toEqual([0.5, 2_000])
  })

  it('selects all scenarios with --all, and keeps the duration of --soak', () => {
    expect([...readOptions(['--all']).scenarios]).toEqual([...SCENARIOS])
    expect(readOptions(['--all', '--soak', '2']).soakMinutes).toBe(2)
  })

  it('reads the length of the longest journal from --recovery', () => {
    const { scenarios, recoveryEntries } = readOptions(['--recovery', '20000'])
    expect([[...scenarios], recoveryEntries]).toEqual([['recovery'], 20_000])
    expect(readOptions(['--recovery']).recoveryEntries).toBe(1_000_000)
    expect(readOptions(['--recovery-jobs', '100']).recoveryJobs).toBe(100)
  })

  it('reads the numbers of partners from --partners', () => {
    const { scenarios, partnerCounts } = readOptions(['--partners', '5,50'])
    expect([[...scenarios], partnerCounts]).toEqual([['partners'], [5, 50]])
    expect(readOptions(['--partners']).partnerCounts).toEqual([10, 200, 1_000])
  })

  it('reads the duration of the highest rate of small jobs from --small', () => {
    const { scenarios, smallSeconds } = readOptions(['--small', '12'])
    expect([[...scenarios], smallSeconds]).toEqual([['small'], 12])
    expect(readOptions(['--small']).smallSeconds).toBe(60)
  })

  it('reads the destinations of the output', () => {
    const options = readOptions(['--json', 'a.json', '--profile', 'b', '--save'])
    expect(options).toMatchObject({ json: 'a.json', profile: 'b', save: true })
  })
})
