import { describe, expect, it } from 'vitest'
import { PARTS, readOptions } from '../../bench/options.ts'

describe('the options', () => {
  it('ask for nothing more by themselves', () => {
    expect(readOptions([])).toEqual({
      rows: 100_000,
      scale: 1,
      parts: new Set(),
      soakMinutes: 10,
      save: false,
      recoveryEntries: 1_000_000,
    })
  })

  it('name parts one by one', () => {
    const { parts, soakMinutes, rows } =
      readOptions(['--growth', '--soak', '0.5', '--rows', '2000'])
    expect([...parts]).toEqual(['growth', 'soak'])
    expect([soakMinutes, rows]).toEqual([0.5, 2_000])
  })

  it('name all parts at once, with a soak as long as wished', () => {
    expect([...readOptions(['--all']).parts]).toEqual([...PARTS])
    expect(readOptions(['--all', '--soak', '2']).soakMinutes).toBe(2)
  })

  it('name the longest journal that is recovered from', () => {
    const { parts, recoveryEntries } = readOptions(['--recovery', '20000'])
    expect([[...parts], recoveryEntries]).toEqual([['recovery'], 20_000])
    expect(readOptions(['--recovery']).recoveryEntries).toBe(1_000_000)
  })

  it('keep where to write', () => {
    const given = readOptions(['--json', 'a.json', '--profile', 'b', '--save'])
    expect(given).toMatchObject({ json: 'a.json', profile: 'b', save: true })
  })
})
