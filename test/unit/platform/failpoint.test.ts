import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  create, failpoint, FAILPOINTS, permitted, PLACES,
} from '../../../services/platform/failpoint.ts'
import { sources } from '../../support/sources.ts'

let folder: string
let done: string[]
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/failpoints-`)
  done = []
})
afterEach(() => rmSync(folder, { recursive: true }))

const acts = {
  kill: () => { done.push('kill') },
  block: (ms: number) => { done.push(`block ${ms}`) },
}

describe('the list of failpoints', () => {
  it('names each call in the services, once', () => {
    const calls = sources().filter(({ path }) => path.startsWith('services/'))
      .flatMap(({ text }) => [...text.matchAll(/\bfailpoint\('([a-z.]+)'\)/g)])
      .map(([, name]) => name)
    expect(calls.toSorted()).toEqual(Object.keys(PLACES).toSorted())
  })

  it('has a point before each step of each stage on the engine, and no name twice', () => {
    expect(FAILPOINTS.filter(name => name.endsWith('.commit'))).toEqual([
      'normalize.commit', 'lookup.commit', 'verify.commit', 'settle.commit', 'deliver.commit',
      'publish.commit', 'ledger.commit',
    ])
    expect(new Set(FAILPOINTS).size).toBe(FAILPOINTS.length)
    expect(FAILPOINTS.length).toBe(7 * 8 + Object.keys(PLACES).length)
  })
})

describe('a failpoint', () => {
  it('does nothing without a setting', () => {
    expect(create(undefined)).toBeUndefined()
    expect(create('')).toBeUndefined()
    failpoint('settle.stored')
  })

  it('kills at the passing that is asked for, once', () => {
    const pass = create('settle.stored:kill@2', acts)
    pass?.('settle.stored')
    pass?.('settle.tallied')
    expect(done).toEqual([])
    pass?.('settle.stored')
    pass?.('settle.stored')
    expect(done).toEqual(['kill'])
  })

  it('blocks for so long', () => {
    const pass = create('verify.kept:kill@9, verify.decide:block=250@1', acts)
    pass?.('verify.decide')
    expect(done).toEqual(['block 250'])
  })

  it('is armed by a file while the process runs, which it empties before it acts', () => {
    const file = `${folder}/verify-1`
    const pass = create(`@${file}`, acts)
    pass?.('verify.kept')
    writeFileSync(file, 'verify.kept:kill@1')
    pass?.('verify.kept')
    pass?.('verify.kept')
    expect(done).toEqual(['kill'])
    expect(readFileSync(file, 'utf8')).toBe('')
    const { name, pid } = JSON.parse(readFileSync(`${file}.fired`, 'utf8'))
    expect([name, pid]).toEqual(['verify.kept', process.pid])
  })

  it('needs a flag of development, so that no variable alone kills a production service', () => {
    expect(() => permitted('verify.kept:kill@1', undefined)).toThrow('set ALLOW_FAILPOINTS=true')
    expect(() => permitted('verify.kept:kill@1', '1')).toThrow('development alone')
    expect(permitted('verify.kept:kill@1', 'true')).toBe('verify.kept:kill@1')
    expect([permitted(undefined, undefined), permitted('', undefined)]).toEqual([undefined, ''])
  })

  it('says what is wrong with a plan', () => {
    expect(() => create('verify.nowhere:kill@1')).toThrow('"verify.nowhere:kill@1" is no plan')
    expect(() => create('verify.kept:die')).toThrow('<failpoint>:kill@<passing>')
  })
})
