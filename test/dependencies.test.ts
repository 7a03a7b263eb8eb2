import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { findingsIn } from './audit.ts'
import { root } from './support/sources.ts'

/** Licences under which the services may be shipped with what they run with. */
const ALLOWED: ReadonlySet<string> = new Set([
  'MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'BlueOak-1.0.0', 'CC0-1.0',
  'Unlicense', 'Python-2.0', 'CC-BY-4.0',
])

type Locked = { readonly dev?: boolean, readonly license?: string }

/** Names no licence in its package.json; the file it comes with is the MIT licence. */
const TOLD_BY_FILE = 'node_modules/@kafkajs/confluent-schema-registry'

/** A licence that gives a choice is allowed when one of them is. */
const isAllowed = (licence: string): boolean =>
  licence.replace(/[()]/g, '').split(' OR ').some(one => ALLOWED.has(one))

describe('the dependencies the services run with', () => {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, Locked>>
  }
  const shipped = Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && !dev)

  it('have licences that allow it', () => {
    expect(shipped.length).toBeGreaterThan(20)
    const others = shipped.map(([path, { license = '' }]) =>
      [path, license || licenceOnDisk(path)] as const)
    expect(others.filter(([, licence]) => !isAllowed(licence))).toEqual([])
  })
})

/** What the package says of itself where the lock file is silent. */
function licenceOnDisk (path: string): string {
  if (path === TOLD_BY_FILE) {
    const text = readFileSync(join(root, path, 'LICENSE'), 'utf8')
    return text.includes('MIT License') ? 'MIT' : 'none'
  }
  const text = readFileSync(join(root, path, 'package.json'), 'utf8')
  return String((JSON.parse(text) as { license?: string }).license ?? 'none')
}

describe('an audit', () => {
  const finding = (severity: string) => ({ name: 'left', severity, range: '<2' })

  it('finds grave vulnerabilities and no others', () => {
    const output = JSON.stringify({ vulnerabilities: { a: finding('high'), b: finding('low') } })
    expect(findingsIn(output)).toEqual([finding('high')])
    expect(findingsIn(JSON.stringify({ vulnerabilities: {} }))).toEqual([])
  })

  it('knows an answer from silence', () => {
    expect(findingsIn('')).toBeUndefined()
    expect(findingsIn(JSON.stringify({ error: { code: 'ENOAUDIT' } }))).toBeUndefined()
  })
})
