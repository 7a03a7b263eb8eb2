import { statSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseTopicPartitions } from '../../../../services/runtime/platform/topics.ts'
import { parseScale, warnOfIdle } from '../../../../deploy/local/launcher/scale.ts'
import { loadSecrets, refuseSecretsOf } from '../../../../deploy/local/launcher/secrets.ts'
import { readJson, writePrivately } from '../../../../deploy/local/json-file.ts'
import { endLeftovers } from '../../../../deploy/local/launcher/state.ts'
import { toSocketPath } from '../../../../deploy/local/launcher/control.ts'
import { dnsEnvironment, receiverEnvironment }
  from '../../../../deploy/local/launcher/settings.ts'
import { newFolder } from '../../../support/folder.ts'

const shape = 'is not <stage>=<number from 0 to 64>; an example: normalize=2,verify=3'
const stages = ['ingest', 'normalize', 'verify']
const folder = newFolder('launcher-unit-')

describe('scale', () => {
  it('above the partitions of a stage is warned of', () => {
    const lines = (scale: object, text = '') =>
      warnOfIdle(scale as Record<string, number>, parseTopicPartitions(text))
    expect(lines({ normalize: 9, verify: 4 })).toEqual([
      'warning: 9 instances of normalize read rows.submitted, which has 4 partitions: 5 would be ' +
      'idle. Start at most 4, or add partitions with TOPIC_PARTITIONS=9 (deploy/docs/scaling.md, ' +
      '"More partitions").',
    ])
    expect(lines({ normalize: 9, ingest: 20 }, '9')).toEqual([])
    expect(lines({})).toEqual([])
  })

  it('reads numbers of stages', () => {
    expect(parseScale('normalize=2, verify=0,', stages)).toEqual({ normalize: 2, verify: 0 })
    expect(parseScale('', stages)).toEqual({})
  })

  it.each([
    ['normalize', `"normalize" ${shape}`],
    ['verify=65', `"verify=65" ${shape}`],
    ['verify=-1', `"verify=-1" ${shape}`],
    ['check=2', 'There is no stage "check"; the stages are ingest, normalize, verify'],
    ['verify=1,verify=2', 'Stage "verify" is named twice'],
  ])('refuses %s', (text, message) => {
    expect(() => parseScale(text, stages)).toThrow(new Error(message))
  })
})

it('secrets are made once, whole, and for the owner only', () => {
  const secrets = loadSecrets(`${folder}/s`)
  expect(loadSecrets(`${folder}/s`)).toEqual(secrets)
  expect(loadSecrets(`${folder}/other`)).not.toEqual(secrets)
  const key = JSON.parse(secrets.RESULTS_ROOT_KEYS)[secrets.RESULTS_ROOT_KEY_ACTIVE]
  const cacheSecret = JSON.parse(secrets.CACHE_SECRETS)[secrets.CACHE_SECRET_ACTIVE]
  expect([key, cacheSecret].map((text) => Buffer.from(text, 'base64').length)).toEqual([32, 32])
  expect(statSync(`${folder}/s/secrets.json`).mode & 0o777).toBe(0o600)
})

it('secrets in the environment of a start ' +
  'are refused unless they are those of the data folder', () => {
  const secrets = loadSecrets(`${folder}/refusing`)
  expect(() => refuseSecretsOf(secrets, `${folder}/refusing`)).not.toThrow()
  const env = { ...secrets, WEBHOOKS_ROOT_KEY_ACTIVE: '2' }
  expect(() => refuseSecretsOf(env, `${folder}/refusing`)).toThrow(
    `${folder}/refusing/secrets.json, but the environment has other values of ` +
    'WEBHOOKS_ROOT_KEY_ACTIVE')
  expect(() => refuseSecretsOf({ MESSAGE_KEY_ACTIVE: '1' }, `${folder}/new`))
    .toThrow('MESSAGE_KEY_ACTIVE')
})

describe('state file', () => {
  it('is readable by its owner only, and absent is undefined', () => {
    writePrivately(`${folder}/state.json`, { a: 1 })
    expect(readJson(`${folder}/state.json`)).toEqual({ a: 1 })
    expect(statSync(`${folder}/state.json`).mode & 0o777).toBe(0o600)
    expect(readJson(`${folder}/none.json`)).toBeUndefined()
    expect(endLeftovers(folder)).toEqual([])
  })

  it('reaches its supervisor by a path short enough for a socket', () => {
    const path = toSocketPath(`/${'long/'.repeat(60)}`)
    expect(path.length).toBeLessThan(100)
    expect(path).not.toBe(toSocketPath('/other'))
  })
})

async function environment (env: NodeJS.ProcessEnv, hasDns: boolean) {
  const output: string[] = []
  const more = await dnsEnvironment(env, (line) => { output.push(line) }, async () => hasDns)
  return { more, output }
}

describe('the resolvers of a local stack', () => {
  it('are those of the system where they answer', async () => {
    expect(await environment({}, true)).toEqual({ more: {}, output: [] })
  })

  it('are none where those of the system do not answer, which is printed', async () => {
    expect(await environment({}, false)).toEqual({
      more: { DNS_SERVERS: '' }, output: [expect.stringContaining('do not answer')],
    })
  })

  it.each(['9.9.9.9', ''])('are those of DNS_SERVERS, "%s"', async (DNS_SERVERS) => {
    expect(await environment({ DNS_SERVERS }, false)).toEqual({ more: {}, output: [] })
  })
})

it('a local stack delivers to receivers on this machine, unless configured otherwise', () => {
  expect(receiverEnvironment({}))
    .toEqual({ WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_LOOPBACK: 'true' })
  expect(receiverEnvironment({ WEBHOOK_ALLOW_LOOPBACK: 'false' }))
    .toEqual({ WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_LOOPBACK: 'false' })
})
