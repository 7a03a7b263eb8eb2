import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { selfSigned } from '../../../../deploy/local/certificate.ts'
import {
  Clickhouse, type Insert, insertDivided,
} from '../../../../services/runtime/platform/clickhouse.ts'
import {
  InfrastructureError, isInfrastructure, findFailedStore,
} from '../../../../services/runtime/platform/errors.ts'
import { newFolder } from '../../../support/folder.ts'
import { startReceiver } from '../../../support/webhooks/receiver.ts'

let answer: (response: ServerResponse) => void
const { port } = await startReceiver(response => answer(response))
const client = new Clickhouse(`http://127.0.0.1:${port}`)
afterAll(() => client.close())

const exception = (code: number, type: string, status = 500) => (response: ServerResponse) => {
  response.writeHead(status, { 'x-clickhouse-exception-code': String(code) })
  response.end(`Code: ${code}. DB::Exception: Something. (${type}) (version 25.12.1.1)`)
}
const plain = (status: number, text: string) => (response: ServerResponse) => {
  response.writeHead(status).end(text)
}
const broken = (response: ServerResponse) => {
  response.writeHead(200, { 'content-length': '100' }).write('{"n":1}\n', () => response.destroy())
}

const read = () => client.rows('SELECT n FROM t')
const stream = async () => {
  const rows: unknown[] = []
  for await (const row of client.stream('SELECT n FROM t')) rows.push(row)
  return rows
}
const write = () => client.insert({ table: 't', values: [{ n: 1 }] })

/** The errors of a read and of a write with this response. */
async function failures (given: typeof answer): Promise<unknown[]> {
  answer = given
  return await Promise.all([read, write].map(run => run().then(() => 'no failure', error => error)))
}

describe('the ClickHouse client', () => {
  it('reads rows and writes them', async () => {
    answer = plain(200, '{"n":1}\n{"n":2}\n')
    expect(await read()).toEqual([{ n: 1 }, { n: 2 }])
    expect(await stream()).toEqual([{ n: 1 }, { n: 2 }])
    answer = plain(200, '')
    await write()
  })

  it('signs each request in by the password that is in its file by then', async () => {
    const passwordFile = `${newFolder('clickhouse-')}/password`
    writeFileSync(passwordFile, 'first')
    const rotated = new Clickhouse(`http://a%40b:unused@127.0.0.1:${port}`, { passwordFile })
    const passwords: (string | undefined)[] = []
    answer = (response) => {
      passwords.push(Buffer.from(response.req.headers.authorization?.slice(6) ?? '', 'base64')
        .toString())
      response.end('')
    }
    await rotated.rows('SELECT 1')
    writeFileSync(passwordFile, 'second\n')
    await rotated.insert({ table: 't', values: [{ n: 1 }] })
    // A file that is just being written.
    writeFileSync(passwordFile, '')
    await rotated.command('SELECT 1')
    await rotated.close()
    expect(passwords).toEqual(['a@b:first', 'a@b:second', 'a@b:second'])
  })

  it('sends a query again whose connection ends before the response, and no insert', async () => {
    let requests = 0
    const reset = (times: number) => (response: ServerResponse) => {
      requests += 1
      if (requests > times) response.end('{"n":1}\n')
      else response.destroy()
    }
    answer = reset(1)
    expect([await read(), requests]).toEqual([[{ n: 1 }], 2])
    requests = 0
    answer = reset(2)
    expect(await read().catch(isInfrastructure)).toBe(true)
    requests = 0
    answer = reset(1)
    expect([await write().catch(isInfrastructure), requests]).toEqual([true, 1])
  })

  it.each([
    ['a full disk', exception(243, 'NOT_ENOUGH_SPACE'), true],
    ['a proxy without a server', plain(502, '<html>Bad Gateway</html>'), true],
    ['a proxy that says nothing', plain(503, ''), true],
    ['a statement that is none', exception(62, 'SYNTAX_ERROR', 400), false],
  ])('has errors of infrastructure and others: %s', async (_what, given, expected) => {
    const errors = await failures(given)
    expect(errors.map(error => error instanceof Error)).toEqual([true, true])
    expect(errors.map(error => isInfrastructure(error))).toEqual([expected, expected])
  })

  it.each([
    [516, 'AUTHENTICATION_FAILED', /^ClickHouse authentication failed: .*CLICKHOUSE_URL$/],
    [497, 'ACCESS_DENIED', /^ClickHouse access denied: .*CLICKHOUSE_URL/],
  ])('names the setting to fix for code %i', async (code, type, message) => {
    for (const error of await failures(exception(code, type, 403))) {
      expect(error).toBeInstanceOf(InfrastructureError)
      expect(String((error as Error).message)).toMatch(message)
    }
  })

  it('names the setting to fix for a certificate that is not trusted', async () => {
    const secure = createServer(selfSigned('clickhouse')).listen(0, '127.0.0.1')
    await once(secure, 'listening')
    const distrusting =
      new Clickhouse(`https://127.0.0.1:${(secure.address() as AddressInfo).port}`)
    await expect(distrusting.rows('SELECT 1')).rejects
      .toThrow(/^The certificate of ClickHouse is not trusted: .* in CLICKHOUSE_URL$/)
    await distrusting.close()
    secure.close()
  })

  it('reports truncated rows as an infrastructure error', async () => {
    const errors = () => Promise.all([read, stream].map(run => run().catch(error => error)))
    answer = broken
    for (const error of await errors()) expect(isInfrastructure(error)).toBe(true)
    answer = plain(200, '{"n":1}\nCode: 33. DB::Exception: Cannot read all data.\n')
    for (const error of await errors()) expect(error).toBeInstanceOf(InfrastructureError)
  })

  it('records its address in errors of the store, also of one that does not answer', async () => {
    const store = `ClickHouse (CLICKHOUSE_URL, 127.0.0.1:${port})`
    const errors = await failures(exception(241, 'MEMORY_LIMIT_EXCEEDED'))
    answer = broken
    errors.push(...await Promise.all([read, stream].map(run => run().catch(error => error))))
    answer = () => {}
    const hasty = new Clickhouse(`http://me:secret@127.0.0.1:${port}`,
      { timeoutMs: 20 })
    const late: unknown = await hasty.rows('SELECT 1').catch(error => error)
    await hasty.close()
    expect([...errors, late].map(error => findFailedStore(error))).toEqual(Array(5).fill(store))
    expect(late).toMatchObject({ message: `${store} did not respond in time` })
  })

  it('cancels a query whose rows are not read to the end', async () => {
    const closed = Promise.withResolvers<void>()
    answer = response => {
      response.on('close', () => closed.resolve())
      response.writeHead(200).write('{"n":1}\n{"n":2}\n')
    }
    for await (const row of client.stream<{ n: number }>('SELECT n FROM t')) {
      if (row.n === 1) break
    }
    await closed.promise
  })

  it('does not report invalid values as an infrastructure error', async () => {
    answer = plain(200, '')
    const failure = await client.insert({ table: 't', values: [{ n: 1n }] })
      .catch((error: unknown) => error)
    expect([failure instanceof TypeError, isInfrastructure(failure)]).toEqual([true, false])
  })
})

describe('an insert', () => {
  /** A table that refuses bad rows, whose statement fails as a whole; it keeps what it stores. */
  function startTable (code = '53', isRefused = (row: number) => row < 0) {
    const stored: number[] = []
    const tokens: unknown[] = []
    const insert = async ({ values, token }: Insert) => {
      tokens.push(token)
      const rows = (values as readonly { readonly row: number }[]).map(({ row }) => row)
      if (rows.some(isRefused)) throw Object.assign(new Error('refused'), { type: 'X', code })
      stored.push(...rows)
    }
    const insertAll = (...rows: readonly number[]) => insertDivided({ insert }, {
      table: 't', values: rows.map(row => ({ row })), token: 'a',
    })
    return { insertAll, stored, tokens }
  }

  it('stores all rows but those that are refused alone, and names these', async () => {
    const { insertAll, stored, tokens } = startTable()
    await expect(insertAll(1, -2, 3, 4, -5, 6, 7, 8)).rejects.toMatchObject({
      message: 'ClickHouse refused 2 of 8 rows of table t', rows: new Set([1, 4]),
    })
    expect(stored).toEqual([1, 3, 4, 6, 7, 8])
    expect(new Set(tokens).size).toBe(tokens.length)
    expect(tokens.length).toBeLessThan(16)
  })

  it('of refused rows alone is divided no further than into single rows', async () => {
    const { insertAll, tokens } = startTable()
    await expect(insertAll(-1, -2, -3, -4, -5)).rejects.toMatchObject({ rows: { size: 5 } })
    expect(tokens).toHaveLength(9)
  })

  it('into a table without a column of this release waits for its provisioning', async () => {
    let requests = 0
    answer = (response) => {
      requests += 1
      exception(16, 'NO_SUCH_COLUMN_IN_TABLE', 404)(response)
    }
    const error = await insertDivided(client, { table: 't', values: [{ n: 1 }, { n: 2 }] })
      .catch((thrown: unknown) => thrown)
    expect([isInfrastructure(error), String(error)])
      .toEqual([true, expect.stringContaining('npm run provision')])
    expect(requests).toBe(1)
  })

  it('is not divided while the store is away', async () => {
    const { insertAll, tokens } = startTable('241')
    await expect(insertAll(1, -2)).rejects.toThrow('refused')
    expect(tokens).toEqual(['a'])
  })
})
