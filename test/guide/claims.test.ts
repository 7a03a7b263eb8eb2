import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
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
