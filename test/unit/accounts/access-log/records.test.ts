import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { ACCESS_COLUMNS } from '../../../../services/accounts/access-log/access-log.ts'

const guide = readFileSync('deploy/docs/access-log.md', 'utf8')
const table = readFileSync('schemas/clickhouse/0009_access_log.sql', 'utf8')

it('the guide of the access log has the columns of exports, and their names in the table', () => {
  const [, fields = ''] = /\| field \| content \|\n\|---\|---\|\n((?:\|.*\n)+)/.exec(guide) ?? []
  const named = fields.split('\n').flatMap(line =>
    [...(line.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name))
  expect(new Set(named)).toEqual(new Set([...ACCESS_COLUMNS, 'hash']))

  const renamed = new Map([...guide.matchAll(/`(\w+)` is `(\w+)`/g)].map(([, from, to]) =>
    [from, to]))
  const stored = [...table.matchAll(/^ {4}(\w+) (?:LowC|String|UInt|DateTime)/gm)].map(([, name]) =>
    name)
  expect(new Set([...ACCESS_COLUMNS.map(name => renamed.get(name) ?? name), 'tenant', 'mac']))
    .toEqual(new Set(stored))
})
