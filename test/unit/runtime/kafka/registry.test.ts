import avro, { type Schema } from 'avsc'
import { writeFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { inspect } from 'node:util'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  InfrastructureError, isInfrastructure,
} from '../../../../services/runtime/platform/errors.ts'
import {
  createCodec, registrySource, ownSchemas,
} from '../../../../services/runtime/kafka/registry.ts'
import { newFolder } from '../../../support/folder.ts'
import { localSource } from '../../../support/kafka/local-schemas.ts'
import { startReceiver } from '../../../support/webhooks/receiver.ts'

const keySchema = ownSchemas().get('job.keys-value')!
const keys = { tenant: 'o.live', job: 'job_1', wrapped: Buffer.of(1, 2, 3) }

describe('a codec', () => {
  it('writes the registry format and reads it back, bytes as buffers', async () => {
    const codec = createCodec(localSource())
    const bytes = await codec.encode('job.keys-value', keys)
    expect(bytes.subarray(0, 5)).toEqual(Buffer.of(0, 0, 0, 0, 6))
    const read = await codec.decode('job.keys', bytes) as typeof keys
    expect({ ...read }).toEqual(keys)
    expect(Buffer.isBuffer(read.wrapped)).toBe(true)
    const later = {
      rows: [2 ** 31 - 1],
      duplicates: [],
      canonicals: ['é'],
      tokens: Buffer.alloc(16),
      rotatedTokens: null,
      waits: null,
    }
    const bare = await codec.encodeBare('rows.retry-rows', later)
    const decodeBare = await codec.prepare('rows.retry-rows', bare.schemaId)
    expect({ ...decodeBare(bare.bytes) as object }).toEqual(later)
  })

  it('rejects values outside the schema, and invalid bytes', async () => {
    const codec = createCodec(localSource())
    await expect(codec.encode('job.keys-value', { tenant: 1 })).rejects.toThrow()
    await expect(codec.decode('job.keys', Buffer.of(1, 0, 0, 0, 1)))
      .rejects.toThrow('not in the wire format')
    await expect(codec.decode('job.keys', Buffer.of(0, 0, 0, 0, 3, 9))).rejects.toThrow()
    await expect(codec.encode('unknown-value', {})).rejects.toThrow('unknown schema subject')
  })

  it('decodes messages of another version, and builds the resolver once', async () => {
    const writer = avro.Type.forSchema({
      type: 'record',
      name: 'Keys',
      namespace: 'job',
      fields: [
        { name: 'more', type: 'string' }, { name: 'tenant', type: 'string' },
        { name: 'job', type: 'string' }, { name: 'wrapped', type: 'bytes' },
      ],
    } as Schema)
    let requests = 0
    const readSchema = async () => {
      requests++
      return writer
    }
    const codec = createCodec({ ...localSource(), readSchema })
    const content = writer.toBuffer({ more: 'x', ...keys })
    const bytes = Buffer.concat([Buffer.of(0, 0, 0, 0, 77), content])
    expect({ ...await codec.decode('job.keys', bytes) as object }).toEqual(keys)
    await codec.decode('job.keys', bytes)
    expect(requests).toBe(1)
  })

  it('repeats a failed lookup', async () => {
    let requests = 0
    const local = localSource()
    const codec = createCodec({
      ...local,
      findId: async subject => {
        if (++requests === 1) throw new InfrastructureError('away')
        return local.findId(subject)
      },
    })
    await expect(codec.encode('job.keys-value', keys)).rejects.toThrow('away')
    await codec.encode('job.keys-value', keys)
    await codec.encode('job.keys-value', keys)
    expect(requests).toBe(2)
  })
})

type Answer = readonly [status: number, body: object]

let answer: (path: string) => Answer | 'silence' | 'half'
const registry = await startReceiver((response, { path }) => {
  const reply = answer(path)
  if (reply === 'silence') return
  if (reply === 'half') {
    response.writeHead(200, { 'content-length': 99 }).write('{"id":')
    response.socket?.end()
    return
  }
  const [status, body] = reply
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
})
const address = `127.0.0.1:${registry.port}`
let before = 0
beforeEach(() => { before = registry.received.length })
/** The users and passwords of the requests of a test. */
const accountsSent = () => registry.received.slice(before).map(({ headers }) =>
  Buffer.from(headers.authorization?.replace('Basic ', '') ?? '', 'base64').toString())

describe('schema sources', () => {
  const answers: Readonly<Record<string, Answer>> = {
    1: [200, { schema: JSON.stringify(keySchema.json) }],
    2: [200, { schema: '{"type":"object"}', schemaType: 'JSON' }],
    3: [200, { schema: 'syntax = "proto3"; message A { string b = 1; }', schemaType: 'PROTOBUF' }],
    4: [200, { schema: '{"type":"nothing"}' }],
    5: [200, { schema: 'x', schemaType: 'OTHER' }],
    6: [404, { error_code: 40403, message: 'Schema not found' }],
    7: [400, { error_code: 400, message: 'Invalid id' }],
    8: [422, { error_code: 422, message: 'Odd id' }],
    9: [401, { error_code: 401, message: 'Who are you?' }],
    10: [429, { error_code: 429, message: 'Not so fast' }],
  }

  it('distinguish permanent from transient errors', async () => {
    answer = path => answers[path.split('/').at(-1) ?? ''] ?? [404, {}]
    const clock = { ms: 0 }
    const source =
      registrySource({ SCHEMA_REGISTRY_URL: `http://${address}` },
        { unknownIdTimeoutMs: 1_000, now: () => clock.ms })
    expect((await source.readSchema(1)).equals(keySchema.type)).toBe(true)
    const errorOf = (id: number) => source.readSchema(id).then(() => undefined, error => error)
    // A schema that the registry lacks may be under way to it, but not forever.
    const attempts = [[0, true], [999, true], [1_000, false], [5_000, false]] as const
    for (const [atMs, passes] of attempts) {
      clock.ms = atMs
      expect([atMs, isInfrastructure(await errorOf(6))]).toEqual([atMs, passes])
    }
    for (const id of [2, 3, 4, 5, 6, 7, 8, 2 ** 31]) {
      expect([id, isInfrastructure(await errorOf(id))]).toEqual([id, false])
      expect(await errorOf(id)).toBeInstanceOf(Error)
    }
    for (const id of [9, 10]) expect([id, isInfrastructure(await errorOf(id))]).toEqual([id, true])
  })

  it('send user and password of the URL, and never show them in errors', async () => {
    answer = () => [401, { message: 'no' }]
    const source = registrySource({ SCHEMA_REGISTRY_URL: `http://user:p%40ss@${address}/path` })
    const error = await source.readSchema(1).catch((thrown: unknown) => thrown)
    expect(accountsSent()).toEqual(['user:p@ss'])
    expect(isInfrastructure(error)).toBe(true)
    expect(String(error)).toMatch(/check user and password in SCHEMA_REGISTRY_URL$/)
    expect(inspect(error, { depth: 9 })).not.toMatch(/p%40ss|p@ss/)
  })

  it('send the password that is in its file by then', async () => {
    const passwordFile = `${newFolder('registry-')}/password`
    writeFileSync(passwordFile, 'first')
    answer = () => answers[1]!
    const source = registrySource({
      SCHEMA_REGISTRY_URL: `http://user@${address}`, SCHEMA_REGISTRY_PASSWORD_FILE: passwordFile,
    })
    await source.readSchema(1)
    writeFileSync(passwordFile, 'second')
    await source.readSchema(2)
    expect(accountsSent()).toEqual(['user:first', 'user:second'])
  })

  it('name the setting and the address of a registry that is unavailable', async () => {
    // The client waits between its tries.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => { vi.useRealTimers() })
    const source = registrySource({ SCHEMA_REGISTRY_URL: 'http://user:secret@127.0.0.1:1' })
    const thrown: unknown[] = []
    const keep = (error: unknown) => { thrown.push(error) }
    source.readSchema(1).catch(keep)
    source.findId('job.keys-value').catch(keep)
    while (thrown.length < 2) {
      vi.advanceTimersByTime(1_000)
      await turn()
    }
    expect(thrown.every(error => isInfrastructure(error))).toBe(true)
    const why = 'The schema registry (SCHEMA_REGISTRY_URL, 127.0.0.1:1) failed: connect ' +
      'ECONNREFUSED 127.0.0.1:1'
    expect(thrown.map(error => (error as Error).message).toSorted()).toEqual([
      `no id for schema job.keys-value: ${why}`, `schema 1 could not be read: ${why}`,
    ])
  })

  it.each(['silence', 'half'] as const)('fail after 10 s of %s, then ask again', async kind => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => { vi.useRealTimers() })
    const source = registrySource({ SCHEMA_REGISTRY_URL: `http://${address}` })
    for (const ask of [() => source.readSchema(1), () => source.findId('job.keys-value')]) {
      answer = () => kind
      const asking = ask().catch((error: unknown) => error)
      await registry.until(registry.received.length + 1)
      vi.advanceTimersByTime(10_000)
      const error = await asking
      expect(isInfrastructure(error)).toBe(true)
      expect(String(error)).toContain(`${address}) failed: no answer within 10 seconds`)
      answer = () => [200, { id: 7, schema: JSON.stringify(keySchema.json) }]
      await ask()
    }
  })

  it('say how to register a schema that the registry lacks', async () => {
    answer = () => [404, { error_code: 40401, message: 'Subject not found' }]
    const source = registrySource({ SCHEMA_REGISTRY_URL: `http://${address}` })
    await expect(source.findId('job.keys-value')).rejects.toThrow(
      `no id for schema job.keys-value: The schema registry (SCHEMA_REGISTRY_URL, ${address
      }) failed: Subject not found; run "npm run provision"`)
  })
})

const { json, type } = ownSchemas().get('rows.retry-rows')!
const rows = {
  rows: [1, 2, 3],
  duplicates: [],
  canonicals: ['a', '', 'd"'],
  tokens: Buffer.alloc(0),
  rotatedTokens: null,
  waits: null,
}

it('a column of strings is readable if the registry returns its schema as a string', async () => {
  const { name, namespace, fields } = json as { name: string, namespace: string, fields: object[] }
  const later = { name: 'later', type: 'string' }
  const writer = avro.Type.forSchema(
    { type: 'record', name, namespace, fields: [later, ...fields] } as unknown as Schema)
  const codec = createCodec({ findId: async () => 1, readSchema: async () => writer })
  const decode = await codec.prepare('rows.retry-rows', 1)
  const bytes = writer.toBuffer({
    ...rows, later: 'x', canonicals: JSON.stringify(rows.canonicals),
  })
  expect({ ...decode(bytes) as object }).toEqual(rows)
})

describe('an Avro array', () => {
  // Its first fields are arrays of integers, the others are empty or null.
  const others = type.toBuffer({ ...rows, rows: [], canonicals: [] }).subarray(1)

  it('is decoded as it was encoded, and in blocks too', () => {
    expect({ ...type.fromBuffer(type.toBuffer(rows)) }).toEqual(rows)
    const [minusTwo, twoBytes, end] = [3, 4, 0]
    const blocks = Buffer.from([minusTwo, twoBytes, 2, 4, end])
    expect(type.fromBuffer(Buffer.concat([blocks, others])).rows).toEqual([1, 2])
  })

  const twoBillion = [0x80, 0xd0, 0xac, 0xf3, 0x0e]
  const minusTwoBillion = [0xff, 0xcf, 0xac, 0xf3, 0x0e]
  it.each([
    ['its first block', twoBillion],
    ['a later block', [2, 2, ...twoBillion]],
    ['a block of stated size', [...minusTwoBillion, 2]],
  ])('is rejected before an item is read if %s is longer than its bytes', (_of, start) => {
    const bytes = Buffer.from([...start, 0, 0])
    expect(() => type.fromBuffer(bytes)).toThrow(/invalid Avro array: \d+ items in \d+ bytes/)
  })
})
