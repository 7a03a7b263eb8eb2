import { globSync, readFileSync, readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { WALLET_LUA } from '../../../services/money/wallet.ts'
import { joinLua } from '../../../services/runtime/platform/redis.ts'

const folders = ['money', 'jobs', 'webhooks']
  .map(area => new URL(`../../../services/${area}/`, import.meta.url))
const files = folders.flatMap(folder => readdirSync(folder)
  .filter(name => name.endsWith('.lua'))
  .map(name => ({ name, text: readFileSync(new URL(name, folder), 'utf8') })))

describe('scripts', () => {
  it('are their parts behind one another', () => {
    const twice = joinLua(WALLET_LUA, WALLET_LUA)
    const once = readFileSync(WALLET_LUA, 'utf8')
    expect(twice).toBe(`${once}\n${once}`)
  })

  it.each(files)('$name writes no number by tostring, nor by a float command', ({ text }) => {
    const code = text.replaceAll(/--.*$/gm, '')
    expect(code).not.toMatch(/tostring|INCRBYFLOAT|os\.time/)
  })

  it.each(files)('$name moves balances only in wallet.lua', ({ name, text }) => {
    const moves = /(?:HSET|HINCRBY)', (?:keys\.)?wallet/.test(text)
    expect(moves).toBe(name === 'wallet.lua')
  })

  it.each(globSync('services/**/*.lua'))('%s names its arguments if they are many', path => {
    expect(readFileSync(path, 'utf8')).not.toMatch(/ARGV\[([5-9]|\d\d)/)
  })

  it.each(files)('$name has lines and functions that are short', ({ text }) => {
    const lines = text.split('\n')
    expect(lines.filter(line => line.length > 100)).toEqual([])
    expect(lines.length).toBeLessThanOrEqual(300)
  })
})
