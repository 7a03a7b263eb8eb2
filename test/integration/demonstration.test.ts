import { afterAll, expect, it } from 'vitest'
import { prepareStack } from '../../deploy/local/launcher/prepare.ts'
import { readJson } from '../../deploy/local/json-file.ts'
import { demoFile } from '../../deploy/local/launcher/state.ts'
import { createApiKeys } from '../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../services/accounts/organizations.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { newFolder } from '../support/folder.ts'
import { stackEnv } from '../support/stacks/stack.ts'

const env = stackEnv()
const folder = newFolder('demonstration-')
const lines: string[] = []
const prepare = (changed: Readonly<Record<string, string>> = {}) =>
  prepareStack({ ...env, ...changed }, folder, line => { lines.push(line) })
const redis = openRedis(env['REDIS_STATE_URL']!)
afterAll(() => {
  redis.disconnect()
})

it('a data folder keeps its demonstration organization until it is erased', async () => {
  const first = await prepare()
  expect(await prepare()).toEqual(first)
  await createOrganizations(redis).markErased(first.orgId)
  const second = await prepare()
  expect(second.orgId).not.toBe(first.orgId)
  expect(second.feed?.partner).not.toBe(first.feed?.partner)
  expect(readJson(demoFile(folder))).toEqual(second)
  const kindOf = async (secret: string) =>
    (await createApiKeys(redis).findKey(secret, '::1')).kind
  expect([await kindOf(first.keys.live), await kindOf(second.keys.live)])
    .toEqual(['revoked', 'ok'])
})

it('a start warns of a root key that stored data needs and the secrets lack', async () => {
  const [id] = Object.keys(JSON.parse(env['RESULTS_ROOT_KEYS'] ?? ''))
  const warnings = () => lines.filter(line => line.includes(`key "${id}" of RESULTS_ROOT_KEYS`))
  await prepare()
  expect(warnings()).toEqual([])
  const own = Buffer.alloc(32, 9).toString('base64')
  await prepare({ RESULTS_ROOT_KEYS: JSON.stringify({ own }), RESULTS_ROOT_KEY_ACTIVE: 'own' })
  expect(warnings()).toEqual([expect.stringContaining(`warning: ${folder}/secrets.json lacks key`)])
})
