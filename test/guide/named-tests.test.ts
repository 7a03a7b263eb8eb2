import { existsSync, globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const root = `${import.meta.dirname}/../..`
const pages = ['README.md', ...globSync('deploy/docs/*.md', { cwd: root })]

it.each(pages)('the tests that %s names as proof exist', page => {
  const named = [...readFileSync(`${root}/${page}`, 'utf8').matchAll(/`(test\/[\w./-]+)`/g)]
    .map(([, path = '']) => path)
  expect(named.filter(path => !existsSync(`${root}/${path}`))).toEqual([])
})
