import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  commandEnvironment, refuseMissingStack,
} from '../../../../services/runtime/platform/command-environment.ts'
import { UsageError } from '../../../../services/runtime/platform/run-command.ts'

let folder: string
beforeEach(() => { folder = mkdtempSync(`${tmpdir()}/command-`) })
afterEach(() => rmSync(folder, { recursive: true }))
const write = (name: 'stack' | 'secrets', content: object) =>
  writeFileSync(`${folder}/${name}.json`, JSON.stringify(content))

describe('the environment of a command', () => {
  it('is completed from the local stack', () => {
    write('stack', {
      kafkaBrokers: 'a:1',
      redisStateUrl: 'redis://a:2',
      clickhouseUrl: 'http://a:3',
      webhookAllowHttp: 'true',
      webhookAllowLoopback: 'false',
      services: [],
    })
    write('secrets', { MESSAGE_KEYS: '{}', MESSAGE_KEY_ACTIVE: '1' })
    const env = commandEnvironment({ REDIS_STATE_URL: 'redis://b:1', CLICKHOUSE_URL: '' }, folder)
    expect(env).toMatchObject({
      KAFKA_BROKERS: 'a:1',
      REDIS_STATE_URL: 'redis://b:1',
      CLICKHOUSE_URL: 'http://a:3',
      MESSAGE_KEYS: '{}',
      MESSAGE_KEY_ACTIVE: '1',
    })
  })

  it('has key rings of the local stack as JSON', () => {
    write('secrets', { CACHE_SECRETS: { 1: 'a', 2: 'b' }, KAFKA_TLS: 'true' })
    expect(commandEnvironment({}, folder))
      .toEqual({ CACHE_SECRETS: '{"1":"a","2":"b"}', KAFKA_TLS: 'true' })
  })

  it('refuses secrets that the local stack does not have, unless another one is used', () => {
    write('stack', { redisStateUrl: 'redis://a:2' })
    write('secrets', {
      RESULTS_ROOT_KEYS: { 1: 'a' }, RESULTS_ROOT_KEY_ACTIVE: '1',
    })
    const same = { RESULTS_ROOT_KEYS: '{"1":"a"}', RESULTS_ROOT_KEY_ACTIVE: '' }
    expect(commandEnvironment(same, folder)).toMatchObject({ RESULTS_ROOT_KEY_ACTIVE: '1' })
    const other = { RESULTS_ROOT_KEYS: '{"1":"a","2":"b"}', RESULTS_ROOT_KEY_ACTIVE: '2' }
    const refused = () => commandEnvironment(other, folder)
    expect(refused).toThrow(UsageError)
    expect(refused).toThrow(`are in ${folder}/secrets.json, but the environment has other values ` +
      'of RESULTS_ROOT_KEYS, RESULTS_ROOT_KEY_ACTIVE. Unset them.')
    const elsewhere = { ...other, REDIS_STATE_URL: 'redis://b:1' }
    expect(commandEnvironment(elsewhere, folder)).toMatchObject(elsewhere)
  })

  it('accepts the webhook addresses that the services of the local stack accept', () => {
    write('stack', {
      redisStateUrl: 'redis://a:2', webhookAllowHttp: 'true', webhookAllowLoopback: 'false',
    })
    const rules = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_LOOPBACK: 'false' }
    expect(commandEnvironment({}, folder)).toMatchObject(rules)
    const elsewhere = { REDIS_STATE_URL: 'redis://b:1' }
    expect(commandEnvironment(elsewhere, folder)).toEqual(elsewhere)
  })

  it('is the process environment without a local stack', () => {
    expect(commandEnvironment({ A: '1' }, folder)).toEqual({ A: '1' })
  })

  it('needs the state file of a folder, unless another stack is named', () => {
    const refuse = (env: Record<string, string>) => () => refuseMissingStack(env, folder)
    expect(refuse({})).toThrow(new UsageError(`${folder}/stack.json does not exist. ` +
      `Run "npm run up -- --data ${folder}" to create it.`))
    expect(refuse({ REDIS_STATE_URL: 'redis://b:1' })).not.toThrow()
    writeFileSync(`${folder}/stack.json`, '{}')
    expect(refuse({})).not.toThrow()
  })

  it('fails if the state file is not readable', () => {
    writeFileSync(`${folder}/stack.json`, '{')
    expect(() => commandEnvironment({}, folder))
      .toThrow(new UsageError(`${folder}/stack.json is not valid JSON. Restore it from a backup, ` +
        'or remove it if its stack is not needed, and run "npm run up".'))
  })

  it('gives no password of Kafka to brokers of a stack file, except its own', () => {
    write('stack', { kafkaBrokers: 'a:1' })
    const password = { KAFKA_SASL_PASSWORD: 'p4ss', REDIS_STATE_URL: 'redis://b:1' }
    expect(() => commandEnvironment(password, folder))
      .toThrow('other values of KAFKA_SASL_PASSWORD')
    const addressed = { ...password, KAFKA_BROKERS: 'b:1' }
    expect(commandEnvironment(addressed, folder)).toMatchObject(addressed)
    write('secrets', { KAFKA_SASL_PASSWORD: 'p4ss' })
    expect(commandEnvironment(password, folder)).toMatchObject({ KAFKA_BROKERS: 'a:1' })
  })
})
