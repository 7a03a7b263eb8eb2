import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { runProgram } from '../../services/client/program.ts'
import type { OpenApiDocument } from '../../services/ingest/openapi.ts'
import { root } from '../support/sources.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const [head = [], , ...lines] = read('deploy/docs/features.md').split('\n')
  .filter(line => line.startsWith('|')).map(line => line.split('|').slice(1, -1).map(cell =>
    cell.trim()))

const { paths } = JSON.parse(read('schemas/api/openapi.json')) as OpenApiDocument
const operations = Object.entries(paths).flatMap(([path, item]) =>
  Object.keys(item).map(method => `${method.toUpperCase()} ${path}`))
const { scripts } = JSON.parse(read('package.json')) as { readonly scripts: object }
const help = new PassThrough()
await runProgram(['--help'], {
  input: process.stdin, output: help, errors: process.stderr, env: {}, onInterrupt () {},
})
const commands = Array.from(String(help.read()).matchAll(/^ {2}([a-z]+)\b.* {2}/gm),
  ([, name]) => `verification-jobs ${name}`)
const known = [
  ...operations, ...commands, ...Object.keys(scripts).map(name => `npm run ${name}`),
]

describe('the table of features', () => {
  it('compares with the seven peers in every line', () => {
    expect(head).toEqual(['feature', 'here', 'proven by', 'Bouncer', 'NeverBounce', 'Kickbox',
      'ZeroBounce', 'Emailable', 'Twilio Lookup', 'Reacher'])
    expect(lines.length).toBeGreaterThan(20)
    expect(lines.filter(cells => cells.length !== head.length || cells.includes(''))).toEqual([])
  })

  it.each(lines)('names an endpoint or command that exists: %s', (_feature, here = '') => {
    const [, name = ''] = /^`([^`]+)`/.exec(here) ?? []
    expect(known).toContain(name)
  })

  it.each(lines)('names a test that exists: %s', (_feature, _here, proof = '') => {
    const [, path = ''] = /^\[[^\]]+\]\(\.\.\/\.\.\/(test\/[^)]+\.ts)\)$/.exec(proof) ?? []
    expect([path === '', existsSync(join(root, path))]).toEqual([false, true])
  })
})
