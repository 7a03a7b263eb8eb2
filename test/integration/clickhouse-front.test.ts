import { ClickHouseLogLevel, createClient } from '@clickhouse/client'
import type { ClickHouseClient } from '@clickhouse/client'
import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stackEnv } from '../support/stacks/stack.ts'

// What the product relies on when it talks to ClickHouse. It runs against whatever the stack
// provides, so the front of the embedded engine and a real server are held to the same behaviour.
const database = `protocol_${randomUUID().replaceAll('-', '')}`
const lines = <T>(client: ClickHouseClient, query: string, more = {}): Promise<T[]> =>
  client.query({ query, format: 'JSONEachRow', ...more }).then((result) => result.json<T>())

// Numbers of 64 bits do not fit JavaScript's; versions differ in whether they quote them.
const quoted = { output_format_json_quote_64bit_integers: 1 } as const

// Refused queries are part of these tests, not news.
const log = { level: ClickHouseLogLevel.OFF } as const

let client: ClickHouseClient

beforeAll(async () => {
  const url = stackEnv().CLICKHOUSE_URL
  const outer = createClient({ url })
  await outer.command({ query: `CREATE DATABASE ${database}` })
  await outer.close()
  client = createClient({ url, database, log, clickhouse_settings: quoted })
  await client.command({
    query: 'CREATE TABLE plain (id UInt32, text String) ENGINE = MergeTree ORDER BY id ' +
      'SETTINGS non_replicated_deduplication_window = 100',
  })
})

afterAll(async () => {
  await client.command({ query: `DROP DATABASE ${database}` })
  await client.close()
})

describe('connection', () => {
  it('answers ping, with and without a query', async () => {
    expect(await client.ping()).toEqual({ success: true })
    expect(await client.ping({ select: true })).toEqual({ success: true })
  })

  it('keeps settings and databases of one request away from the next', async () => {
    const query = "SELECT toString(getSetting('max_block_size')) AS size, currentDatabase() AS name"
    const [first] = await lines(client, query, { clickhouse_settings: { max_block_size: '77' } })
    const [second] = await lines<{ size: string }>(client, query)
    expect(first).toEqual({ size: '77', name: database })
    expect(second).not.toMatchObject({ size: '77' })
  })
})

describe('writing', () => {
  it('accepts rows with every kind of text, and returns how many it wrote', async () => {
    const binary = randomBytes(300_000).toString('base64')
    const texts = ['', "it's; DROP TABLE plain --", 'a\n\n;b\t\\', 'é漢😀\u0000x', binary]
    const values = texts.map((text, id) => ({ id, text }))
    const { summary } = await client.insert({ table: 'plain', values, format: 'JSONEachRow' })
    expect(summary?.written_rows).toBe('5')
    const read = await lines(client, 'SELECT * FROM plain WHERE id < 5 ORDER BY id')
    expect(read).toEqual(values)
  })

  it('takes named columns, the compact format and an INSERT with VALUES', async () => {
    const ids = { columns: ['id'] as [string], values: [[10]] }
    await client.insert({ table: 'plain', ...ids, format: 'JSONCompactEachRow' })
    await client.command({ query: "INSERT INTO plain VALUES (11, 'a;b'), (12, 'FORMAT CSV')" })
    const read = await lines(client, 'SELECT * FROM plain WHERE id IN (10, 11, 12) ORDER BY id')
    expect(read).toEqual([
      { id: 10, text: '' }, { id: 11, text: 'a;b' }, { id: 12, text: 'FORMAT CSV' },
    ])
  })

  it('writes a batch once for each deduplication token', async () => {
    for (const token of ['one', 'one', 'two']) {
      await client.insert({
        table: 'plain',
        values: [{ id: 20, text: 'same' }],
        format: 'JSONEachRow',
        clickhouse_settings: { insert_deduplication_token: token },
      })
    }
    const [count] = await lines(client, 'SELECT count() AS rows FROM plain WHERE id = 20')
    expect(count).toEqual({ rows: '2' })
  })
})

describe('reading', () => {
  it('binds parameters by type, whatever they hold', async () => {
    const texts = ["it's", '\\', "'; DROP TABLE plain --", 'tab\tline\nend', '{y:String}', 'é😀']
    const [row] = await lines(client, 'SELECT {texts:Array(String)} AS texts, ' +
      '{text:String} AS text, {number:UInt64} AS number, {nothing:Nullable(String)} AS nothing', {
      query_params: { texts, text: texts.join('|'), number: '18446744073709551615', nothing: null },
    })
    expect(row).toEqual({
      texts, text: texts.join('|'), number: '18446744073709551615', nothing: null,
    })
  })

  it('forgets parameters after the request', async () => {
    await lines(client, 'SELECT {once:String} AS once', { query_params: { once: 'x' } })
    await expect(lines(client, 'SELECT {once:String} AS once')).rejects
      .toMatchObject({ code: '456' })
  })

  it('takes parameters that are too long for a URL', async () => {
    const ids = Array.from({ length: 60_000 }, (_, index) => `id-${index}`)
    const [row] = await lines(client, 'SELECT length({ids:Array(String)}) AS ids', {
      query_params: { ids }, use_multipart_params: true,
    })
    expect(row).toEqual({ ids: '60000' })
  })

  it('streams many rows', async () => {
    const result = await client.query({
      query: "SELECT number, repeat('x', 100) AS text FROM numbers(300000)", format: 'JSONEachRow',
    })
    let rows = 0
    let sum = 0
    for await (const batch of result.stream<{ number: string }>()) {
      rows += batch.length
      for (const row of batch) sum += Number(row.json().number)
    }
    expect([rows, sum]).toEqual([300_000, 44_999_850_000])
  })

  it('serves many requests at once, each its own answer', async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, (_, index) =>
      lines(client, 'SELECT {index:UInt32} AS index, count() > 0 AS some FROM plain', {
        query_params: { index },
      })))
    expect(answers).toEqual(answers.map((_, index) => [{ index, some: 1 }]))
  })
})

describe('errors', () => {
  it.each([
    ['SELEC 1', '62', 'SYNTAX_ERROR'],
    ['SELECT * FROM missing', '60', 'UNKNOWN_TABLE'],
    ['SELECT missing FROM plain', '47', 'UNKNOWN_IDENTIFIER'],
    ['SELECT 1; SELECT 2', '62', 'SYNTAX_ERROR'],
    ["SELECT throwIf(1, 'stop')", '395', 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO'],
  ])('%s', async (query, code, type) => {
    await expect(client.query({ query, format: 'JSONEachRow' })).rejects
      .toMatchObject({ code, type })
  })

  it('names an unknown setting and an unreadable row, and writes nothing of it', async () => {
    const odd = { clickhouse_settings: { no_such_setting: '1' } as object }
    await expect(lines(client, 'SELECT 1', odd)).rejects.toMatchObject({ code: '115' })
    const values = [{ id: 30, text: 'x' }, { id: 'thirty', text: 'x' }]
    await expect(client.insert({ table: 'plain', values, format: 'JSONEachRow' })).rejects.toThrow()
    expect(await lines(client, 'SELECT id FROM plain WHERE id = 30')).toEqual([])
  })
})
