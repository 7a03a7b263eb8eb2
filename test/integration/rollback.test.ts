import { createClient } from '@clickhouse/client'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { provision } from '../../deploy/provision.ts'
import { migrations } from '../../deploy/provision/migrations.ts'
import { stackEnv } from '../support/stacks/stack.ts'

/**
 * Statements as the release before migration 0006 sent them, recorded on the tables of that release
 * with the rows that they returned there. A Map is an object with the key `map`. For a new
 * migration that changes more than how parts are merged, record them from the release before it:
 * every method of its archive, result blocks, copy of the journal, copy of the keys and delivery
 * history, called with a client that writes down what it is given. Times are far ahead, as rows
 * expire.
 */
type Statement =
  | {
    readonly kind: 'insert'
    readonly table: string
    readonly columns: [string, ...string[]]
    readonly values: readonly object[]
    readonly settings: { readonly insert_deduplication_token?: string }
  }
  | { readonly kind: 'command', readonly query: string, readonly params: Parameters }
  | {
    readonly kind: 'query'
    readonly query: string
    readonly params?: Parameters
    readonly rows: readonly Row[]
  }
type Parameters = Readonly<Record<string, unknown>>
type Row = Readonly<Record<string, unknown>>

const NEWEST = '0006_settled.sql'
const FILE = new URL('../support/clickhouse/statements-before-0006.json', import.meta.url)
const RECORDED_TENANT = 'org_before.live'
const id = randomUUID()
const TENANT = `org_${id}.live`
const statements = JSON.parse(
  readFileSync(FILE, 'utf8').replaceAll(RECORDED_TENANT, TENANT)) as readonly Statement[]

const env = stackEnv()
const clickhouse = createClient({
  url: env.CLICKHOUSE_URL ?? '', clickhouse_settings: { date_time_input_format: 'best_effort' },
})
beforeAll(() => provision(env))
afterAll(() => clickhouse.close())

/** Some queries read all tenants, and some have no order. */
const comparable = (rows: readonly Row[]) => rows
  .filter(({ tenant = TENANT }) => tenant === TENANT).map(row => JSON.stringify(row)).toSorted()

const parametersOf = (params: Parameters = {}) => Object.fromEntries(
  Object.entries(params).map(([name, value]) => [name, isMap(value)
    ? new Map(Object.entries(value.map))
    : value]))

const isMap = (value: unknown): value is { readonly map: object } =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, 'map')

async function run (statement: Statement): Promise<readonly Row[]> {
  if (statement.kind === 'insert') {
    const { table, columns, values, settings } = statement
    // Another run of this test has sent the recorded token.
    const token = `${settings.insert_deduplication_token}${id}`
    await clickhouse.insert({
      table,
      columns,
      values,
      format: 'JSONEachRow',
      clickhouse_settings: { ...settings, insert_deduplication_token: token },
    })
    return []
  }
  const { query } = statement
  const parameters = parametersOf(statement.params)
  if (statement.kind === 'command') {
    await clickhouse.command({ query, query_params: parameters })
    return []
  }
  const answer = await clickhouse.query({
    query, query_params: parameters, format: 'JSONEachRow',
  })
  return await answer.json<Row>()
}

describe('the release before the newest migration', () => {
  it('is the one whose statements are recorded', () => {
    // A release does not know a table that is newer.
    const changesTables = (statement: string) =>
      !/MODIFY SETTING merge_\w+ = \d+$|^(--.*\n)*CREATE TABLE/.test(statement.trim())
    const changing = migrations().filter(({ statements: all }) => all.some(changesTables))
    expect(changing.at(-1)?.name).toBe(NEWEST)
  })

  it('reads and writes the tables after it as before', async () => {
    for (const statement of statements) {
      const found = comparable(await run(statement))
      const expected = 'rows' in statement ? comparable(statement.rows) : []
      expect(found, JSON.stringify(statement)).toEqual(expected)
    }
  })
})
