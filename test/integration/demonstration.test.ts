import { rmSync } from 'node:fs'
import { afterAll, expect, it } from 'vitest'
import { prepareStack } from '../../deploy/local/launcher/prepare.ts'
import { demoFile, readJson } from '../../deploy/local/launcher/state.ts'
import { createApiKeys } from '../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../services/accounts/organizations.ts'
import { connectRedis } from '../../services/platform/redis.ts'
import { newFolder } from '../support/folder.ts'
import { stackEnv } from '../support/stack.ts'

const env = stackEnv()
const folder = newFolder('demonstration-')
const redis = connectRedis(env['REDIS_STATE_URL']!)
afterAll(() => {
  redis.disconnect()
  rmSync(folder, { recursive: true })
})

it('a data folder keeps its demonstration organization until it is erased', async () => {
  const first = await prepareStack(env, folder)
  expect(await prepareStack(env, folder)).toEqual(first)
  await createOrganizations(redis).markErased(first.orgId)
  const second = await prepareStack(env, folder)
  expect(second.orgId).not.toBe(first.orgId)
  expect(second.feed?.partner).not.toBe(first.feed?.partner)
  expect(readJson(demoFile(folder))).toEqual(second)
  const kindOf = async (secret: string) =>
    (await createApiKeys(redis).findKey(secret, '::1')).kind
  expect([await kindOf(first.keys.live), await kindOf(second.keys.live)])
    .toEqual(['revoked', 'ok'])
})
