import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  allowedPlans, create, failpoint, FAILPOINTS, NAMED_FAILPOINTS,
} from '../../../../services/runtime/platform/failpoint.ts'
import { STAGES } from '../../../../services/topology.ts'
import { instanceOf } from '../../../faults/scenarios/failpoints.ts'
import { sources } from '../../../support/sources.ts'

let folder: string
let done: string[]
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/failpoints-`)
  done = []
})
afterEach(() => rmSync(folder, { recursive: true }))

const actions = {
  kill: () => { done.push('kill') },
  block: (ms: number) => { done.push(`block ${ms}`) },
}

describe('the list of failpoints', () => {
  it('names each call in the services, once', () => {
    const calls = sources().filter(({ path }) => path.startsWith('services/'))
      .flatMap(({ text }) => [...text.matchAll(/\bfailpoint\('([a-z.]+)'\)/g)])
      .map(([, name]) => name)
    expect(calls.toSorted()).toEqual(Object.keys(NAMED_FAILPOINTS).toSorted())
  })

  it('has one before each step of each stage on the engine, and no duplicates', () => {
    expect(FAILPOINTS.filter(name => name.endsWith('.commit'))).toEqual([
      'normalize.commit', 'lookup.commit', 'verify.commit', 'settle.commit', 'deliver.commit',
      'publish.commit', 'ledger.commit',
    ])
    expect(new Set(FAILPOINTS).size).toBe(FAILPOINTS.length)
    expect(FAILPOINTS.length).toBe(7 * 8 + Object.keys(NAMED_FAILPOINTS).length)
  })

  it('has none that the fault suite cannot place in a process', () => {
    const processes = STAGES.map(stage => `${stage}-1`)
    expect(FAILPOINTS.filter(point => !processes.includes(instanceOf(point)))).toEqual([])
  })
})

describe('a failpoint', () => {
  it('does nothing without a setting', () => {
    expect(create(undefined)).toBeUndefined()
    expect(create('')).toBeUndefined()
    failpoint('settle.stored')
  })

  it('kills once, at the configured call', () => {
    const pass = create('settle.stored:kill@2', actions)
    pass?.('settle.stored')
    pass?.('settle.tallied')
    expect(done).toEqual([])
    pass?.('settle.stored')
    pass?.('settle.stored')
    expect(done).toEqual(['kill'])
  })

  it('blocks for the configured time', () => {
    const pass = create('verify.kept:kill@9, verify.decide:block=250@1', actions)
    pass?.('verify.decide')
    expect(done).toEqual(['block 250'])
  })

  it('is armed by a file, which is emptied before the kill', () => {
    const file = `${folder}/verify-1`
    const pass = create(`@${file}`, actions)
    pass?.('verify.kept')
    writeFileSync(file, 'verify.kept:kill@1')
    pass?.('verify.kept')
    pass?.('verify.kept')
    expect(done).toEqual(['kill'])
    expect(readFileSync(file, 'utf8')).toBe('')
    const { name, pid } = JSON.parse(readFileSync(`${file}.fired`, 'utf8'))
    expect([name, pid]).toEqual(['verify.kept', process.pid])
  })

  it('needs ALLOW_FAILPOINTS, so that one variable cannot kill a production service', () => {
    expect(() => allowedPlans('verify.kept:kill@1', undefined)).toThrow('set ALLOW_FAILPOINTS=true')
    expect(() => allowedPlans('verify.kept:kill@1', '1')).toThrow('in development')
    expect(allowedPlans('verify.kept:kill@1', 'true')).toBe('verify.kept:kill@1')
    expect(allowedPlans(undefined, undefined)).toBe(undefined)
    expect(allowedPlans('', undefined)).toBe('')
  })

  it('rejects an invalid plan', () => {
    expect(() => create('verify.nowhere:kill@1'))
      .toThrow('"verify.nowhere:kill@1" is not a valid plan')
    expect(() => create('verify.kept:die')).toThrow('<failpoint>:kill@<call>')
  })
})
