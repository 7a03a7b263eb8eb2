import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { describe, expect, it } from 'vitest'

const files = globSync('services/{money,jobs,webhooks}/*.lua')
  .map(path => ({ name: basename(path), text: readFileSync(path, 'utf8') }))

describe('scripts', () => {
  it.each(files)('$name writes no number by tostring, nor by a float command', ({ text }) => {
    const code = text.replaceAll(/--.*$/gm, '')
    expect(code).not.toMatch(/tostring|INCRBYFLOAT|os\.time/)
  })

  it.each(files)('$name moves balances only in wallet.lua', ({ name, text }) => {
    const moves = /(?:HSET|HINCRBY)', WALLET/.test(text)
    expect(moves).toBe(name === 'wallet.lua')
  })

  it.each(globSync('services/**/*.lua'))('%s names its arguments if they are many', path => {
    expect(readFileSync(path, 'utf8')).not.toMatch(/ARGV\[([5-9]|\d\d)/)
  })
})
