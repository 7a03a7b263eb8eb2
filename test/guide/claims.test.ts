import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { REQUIREMENTS } from '../e2e/contract/requirements.ts'
import { root } from '../support/sources.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const claims = read('test/CLAIMS.md').split('\n').filter(line => line.includes(' › ')).map(line => {
  const [, claim = '', file = '', title = ''] = /^\| (.+) \| `([^`]+)` › (.+) \|$/.exec(line) ?? []
  return { line, claim, file, title }
})

describe('the claims', () => {
  it('have one owner each, which exists', () => {
    expect(claims.filter(({ file, title }) =>
      title === '' || !existsSync(join(root, file)) || !read(file).includes(title)))
      .toEqual([])
    expect(claims.length).toBeGreaterThan(80)
  })

  it('are written once', () => {
    for (const part of [claims.map(({ claim }) => claim), claims.map(({ line }) => line)]) {
      expect(part.filter((one, index) => part.indexOf(one) !== index)).toEqual([])
    }
  })
})

describe('the requirements of the interface text', () => {
  const folder = 'test/e2e/contract'
  /** A source, with the texts in one piece that go on in the next line. */
  const joined = (file: string) => read(file).replaceAll(/' \+\s+'/g, '')
  const contract = readdirSync(join(root, folder)).filter(name => name !== 'requirements.ts')
    .map(name => joined(`${folder}/${name}`)).join()
  const requirements = Object.values(REQUIREMENTS).flat()

  it('name tests that exist', () => {
    const missing = requirements.flatMap(([, ...proofs]) => proofs).filter(proof => {
      const [, file, title = ''] = /^(test\/\S+): (.*)/.exec(proof) ?? []
      return !(file === undefined ? contract.includes(proof) : joined(file).includes(title))
    })
    expect(missing).toEqual([])
  })

  it('are written once', () => {
    const sentences = requirements.map(([sentence]) => sentence)
    expect(new Set(sentences).size).toBe(sentences.length)
    expect(sentences.length).toBeGreaterThan(100)
  })
})
