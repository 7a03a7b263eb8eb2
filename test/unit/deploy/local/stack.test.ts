import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { describe, expect, it, vi } from 'vitest'
import { installOnce } from '../../../../deploy/local/install.ts'
import { openPortBook } from '../../../../deploy/local/ports.ts'
import { chooseSource } from '../../../../deploy/local/source.ts'
import { readTail } from '../../../../deploy/local/process.ts'
import { supervise } from '../../../../deploy/local/supervise.ts'
import { eventually } from '../../../support/eventually.ts'
import { newFolder } from '../../../support/folder.ts'

const folder = newFolder('stack-unit-')

const given = {
  KAFKA_BROKERS: 'a:1,b:1',
  SCHEMA_REGISTRY_URL: 'http://r',
  REDIS_STATE_URL: 'redis://s',
  REDIS_CACHE_URL: 'redis://c',
  CLICKHOUSE_URL: 'http://h',
}

describe('source of the stack', () => {
  it('is given, or else embedded unless it is chosen', () => {
    expect(chooseSource({ ...given, STACK_SOURCE: 'containers' }))
      .toEqual({ kind: 'given', addresses: given })
    expect(chooseSource({ HOME: 'x' })).toEqual({ kind: 'embedded' })
    expect(chooseSource({ STACK_SOURCE: 'embedded' })).toEqual({ kind: 'embedded' })
    expect(chooseSource({ STACK_SOURCE: 'containers' })).toEqual({ kind: 'containers' })
    expect(() => chooseSource({ STACK_SOURCE: 'cloud' }))
      .toThrow('STACK_SOURCE is "cloud"; it can be containers or embedded')
  })

  it('never mixes given addresses with parts of its own', () => {
    const some = { KAFKA_BROKERS: 'a:1', CLICKHOUSE_URL: 'http://h', REDIS_STATE_URL: '' }
    expect(() => chooseSource(some)).toThrow(
      'not SCHEMA_REGISTRY_URL, REDIS_STATE_URL, REDIS_CACHE_URL. Give all five, or none')
  })
})

it('parts are installed once, whole, where the system keeps caches', async () => {
  vi.stubEnv('XDG_CACHE_HOME', `${folder}/cache`)
  const install = (text: string) => installOnce('part', async partial => {
    writeFileSync(`${partial}/text`, text)
    if (text === '') throw new Error('interrupted')
  })
  await expect(install('')).rejects.toThrow('interrupted')
  expect([await install('a'), await install('b')])
    .toEqual(Array(2).fill(`${folder}/cache/verification-jobs/part`))
  expect(readFileSync(`${folder}/cache/verification-jobs/part/text`, 'utf8')).toBe('a')
  vi.unstubAllEnvs()
})

describe('ports', () => {
  it('are kept between starts and below those of outgoing connections', async () => {
    const book = openPortBook(`${folder}/p`)
    const [first, second] = await Promise.all([book.port('one'), book.port('two')])
    expect(first).not.toBe(second)
    expect(first).toBeGreaterThanOrEqual(20_000)
    expect(first).toBeLessThan(32_000)
    expect(await openPortBook(`${folder}/p`).port('one')).toBe(first)
  })

  it('are replaced when another process took them', async () => {
    const port = await openPortBook(`${folder}/q`).port('one')
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    expect((server.address() as AddressInfo).port).toBe(port)
    expect(await openPortBook(`${folder}/q`).port('one')).not.toBe(port)
    server.close()
  })
})

describe('supervision', () => {
  const program = (code: string, ready = true) => ({
    name: 'child',
    command: process.execPath,
    args: ['-e', code],
    dataDir: folder,
    ready: () => Promise.resolve(ready),
    graceMs: 200,
  })

  it('starts a killed program again and stops it for good', async () => {
    const pids: (number | undefined)[] = []
    const twoStarts = Promise.withResolvers<void>()
    const child = supervise(program('setInterval(() => {}, 1000)'), () => {
      pids.push(child?.pid())
      if (pids.length === 2) twoStarts.resolve()
    })
    await child.untilReady()
    child.kill('SIGKILL')
    await twoStarts.promise
    expect(pids).toEqual([undefined, child.pid()])
    expect(child.pid()).toBeTypeOf('number')
    expect(child.restarts()).toBe(1)
    await child.stop()
    expect(child.pid()).toBeUndefined()
  })

  it('insists when a program ignores SIGTERM', async () => {
    const child = supervise({
      ...program("process.on('SIGTERM', () => {}); console.log('armed'); setInterval(() => 0, 99)"),
      name: 'stubborn',
      ready: async () => readTail(`${folder}/logs/stubborn.log`).includes('armed'),
    })
    await child.untilReady()
    const pid = child.pid()!
    await child.stop()
    expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  })

  it('stops restarting a program that keeps ending, and shows its output', async () => {
    const child = supervise({ ...program("console.log('no such table')", false), name: 'broken' })
    await eventually(() => expect(readTail(`${folder}/logs/broken.log`)).toContain('no such table'))
    await expect(child.untilReady(1)).rejects
      .toThrow(/^broken did not become ready.*no such table/s)
    await child.stop()
  })
})
