import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { commandEnvironment } from '../../../services/platform/command-environment.ts'

let folder: string
beforeEach(() => { folder = mkdtempSync(`${tmpdir()}/command-`) })
afterEach(() => rmSync(folder, { recursive: true }))

describe('the environment of a command', () => {
  it('is completed from the local stack', () => {
    writeFileSync(`${folder}/stack.json`, JSON.stringify({
      kafkaBrokers: 'a:1', redisStateUrl: 'redis://a:2', clickhouseUrl: 'http://a:3', services: [],
    }))
    const secrets = { MESSAGE_KEYS: '{}', MESSAGE_KEY_ACTIVE: '1' }
    writeFileSync(`${folder}/secrets.json`, JSON.stringify(secrets))
    const env = commandEnvironment({ REDIS_STATE_URL: 'redis://b:1', CLICKHOUSE_URL: '' }, folder)
    expect(env).toMatchObject({
      KAFKA_BROKERS: 'a:1',
      REDIS_STATE_URL: 'redis://b:1',
      CLICKHOUSE_URL: 'http://a:3',
      MESSAGE_KEYS: '{}',
      MESSAGE_KEY_ACTIVE: '1',
    })
  })

  it('is the process environment without a local stack', () => {
    expect(commandEnvironment({ A: '1' }, folder)).toEqual({ A: '1' })
  })

  it('fails if the state file is not readable', () => {
    writeFileSync(`${folder}/stack.json`, '{')
    expect(() => commandEnvironment({}, folder)).toThrow(SyntaxError)
  })
})
