import { describe, expect, it } from 'vitest'
import { longFunctionsOf } from './support/parsed.ts'
import { ARCHAIC, sources, type Source } from './support/sources.ts'

/** A file is as large as its subject, and a function fits a screen. */
const limits = { columns: 100, functionLines: 70 } as const

const all = sources()
const isTest = (source: Source) => source.path.startsWith('test/')
const services = all.filter(source => source.path.startsWith('services/'))

function offences (test: (source: Source) => readonly string[]): readonly string[] {
  return all.flatMap(source => test(source).map(offence => `${source.path}: ${offence}`))
}

/** The callback of a test describes many cases. */
const isCallback = (name: string) => name === '(anonymous)'

describe('every file', () => {
  it(`keeps its lines to ${limits.columns} columns`, () => {
    expect(offences(({ lines }) => lines
      .map((line, index) => [line.length, index + 1])
      .filter(([length = 0]) => length > limits.columns)
      .map(([length, line]) => `line ${line} has ${length} columns`))).toEqual([])
  })

  it('has short functions', () => {
    expect(offences(source => longFunctionsOf(source, limits.functionLines)
      .filter(({ name }) => !(isTest(source) && isCallback(name)))
      .map(({ name, lines }) => `${name} takes ${lines} lines`))).toEqual([])
  })

  it('has no default export but the settings of tools', () => {
    const settings = /vitest\.config\.ts|\/setup\.ts|repeat-runner\.ts/
    expect(offences(({ path, text }) =>
      /^export default/m.test(text) && !settings.test(path) ? ['a default export'] : []))
      .toEqual([])
  })

  it('avoids archaic words', () => {
    expect(offences(({ path, lines }) => path === 'test/support/sources.ts'
      ? []
      : lines.filter(line => ARCHAIC.test(line)).map(line => line.trim()))).toEqual([])
  })

  it('speaks of the product only', () => {
    const strange = new RegExp(['TO' + 'DO', 'FIX' + 'ME', '/wo' + 'rk/', '/ro' + 'ot/'].join('|'))
    expect(offences(({ lines }) => lines
      .filter(line => strange.test(line)).map(line => line.trim()))).toEqual([])
  })
})

describe('the code of the services', () => {
  it('knows nothing of the business in its runtime', () => {
    const business = /\b(phones?|e-?mails?|wallets?)\b/i
    const technical = services
      .filter(({ path }) => /^services\/runtime\//.test(path))
    expect(technical.flatMap(({ path, lines }) => lines
      .filter(line => business.test(line) && !line.includes('wallet.journal'))
      .map(line => `${path}: ${line.trim()}`))).toEqual([])
  })

  it('documents every exported function', () => {
    const bare = services.flatMap(({ path, lines }) => lines
      .map((line, index) => ({ line, before: lines[index - 1] ?? '' }))
      .filter(({ line }) => /^export (async )?function/.test(line))
      .filter(({ before }) => !before.trim().endsWith('*/'))
      .map(({ line }) => `${path}: ${line}`))
    expect(bare).toEqual([])
  })

  it('exports every name once; the client is a package of its own', () => {
    const filesOf = new Map<string, string[]>()
    for (const { path, text } of services.filter(({ path }) => !path.includes('/client/'))) {
      const names = text.matchAll(/^export (?:async )?(?:type|function|const|class) (\w+)/gm)
      for (const [, name = ''] of names) filesOf.set(name, [...filesOf.get(name) ?? [], path])
    }
    expect([...filesOf].filter(([, files]) => files.length > 1)).toEqual([])
  })
})
