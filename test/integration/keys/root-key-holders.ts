import { expect, it } from 'vitest'
import { connectAllKeys } from '../../../services/accounts/connect-organization-keys.ts'
import { newOrganizationId } from '../../../services/accounts/organizations.ts'
import {
  publishRootKeyIds, readRootKeyHolders,
} from '../../../services/runtime/crypto/root-keys.ts'
import { listKeys, rewrapAll, rotationNote } from '../../../services/admin/key-rotation.ts'
import { eventually } from '../../support/eventually.ts'
import { processWith, rootsOf } from '../../support/keys/key-processes.ts'
import { ROOT_KEY_SETTINGS, rootKeysIn } from '../../support/keys/organization-keys.ts'
import { keyStore, redis } from '../../support/keys/wrapped-keys.ts'

it('nothing is wrapped by a root key that a process lacks, until the process stops', async () => {
  const stops: (() => unknown)[] = []
  const settings = rootKeysIn(ROOT_KEY_SETTINGS)
  const publish = (process: string, settings: object) =>
    publishRootKeyIds(redis, { process, settings, onStop: stop => { stops.push(stop) } })
  publish('none.a', { REDIS_STATE_URL: '' })
  const { WEBHOOKS_ROOT_KEYS, WEBHOOKS_ROOT_KEY_ACTIVE } = settings
  publish('deliver.a', { WEBHOOKS_ROOT_KEYS, WEBHOOKS_ROOT_KEY_ACTIVE })
  await eventually(async () => expect(await readRootKeyHolders(redis)).toEqual([{
    id: expect.any(String),
    process: 'deliver.a',
    keys: {
      webhooks: { ids: ['1'], active: '1', digests: { 1: expect.stringMatching(/^\w{16}$/) } },
    },
  }]))
  const id = newOrganizationId()
  await connectAllKeys(redis, settings).create(id)
  const later = connectAllKeys(redis, {
    ...settings,
    WEBHOOKS_ROOT_KEYS: { ...WEBHOOKS_ROOT_KEYS, 2: Buffer.alloc(32, 2).toString('base64') },
    WEBHOOKS_ROOT_KEY_ACTIVE: '2',
  })
  await expect(later.rotate(id, [])).rejects.toThrow('deliver.a')
  const { rotation } = processWith(rootsOf(1, 2))
  await expect(rewrapAll(rotation)).rejects.toThrow('deliver.a')
  const report = await listKeys(rotation)
  expect(report.rootKeys.map(({ class: keyClass, activeIn, missingIn, isFree }) =>
    [keyClass, activeIn, missingIn, isFree])).toEqual([
    ['results', [], [], true], ['results', [], [], false],
    ['webhooks', ['deliver.a'], [], false], ['webhooks', [], ['deliver.a'], false],
    ['partners', [], [], true], ['partners', [], [], false],
  ])
  expect(rotationNote(report)).toBe('These processes lack the active key "2" of ' +
    'WEBHOOKS_ROOT_KEYS: deliver.a. Give it to them and restart them first: "keys rewrap" is ' +
    'refused before that.')
  const other = connectAllKeys(redis, {
    ...settings, WEBHOOKS_ROOT_KEYS: { 1: Buffer.alloc(32, 9).toString('base64') },
  })
  await expect(other.rotate(id, [])).rejects.toThrow('WEBHOOKS_ROOT_KEYS of these processes has ' +
    'another value under that id: deliver.a.')
  expect((await keyStore.read(id)).map(({ version }) => version)).toEqual([1, 1, 1])

  for (const stop of stops) await stop()
  expect(await readRootKeyHolders(redis)).toEqual([])
  expect(await later.rotate(id, [])).toBe(2)
  expect(await rewrapAll(processWith(rootsOf(1, 2)).rotation)).toMatchObject({ missed: 0 })
})

it('a process that crashed is forgotten', async () => {
  const stops: (() => unknown)[] = []
  publishRootKeyIds(redis, {
    process: 'feed.a',
    settings: { PARTNERS_ROOT_KEYS: {} },
    onStop: stop => { stops.push(stop) },
  })
  await eventually(async () => expect(await readRootKeyHolders(redis)).toHaveLength(1))
  const [record = ''] = await redis.zrange('processes:root-keys', '0', '-1')
  const [seconds] = await redis.time()
  await redis.zadd('processes:root-keys', Number(seconds) - 31, `crashed ${record}`)
  await redis.zadd('processes:root-keys', Number(seconds) - 29, record.replace('feed.a', 'feed.b'))
  expect((await readRootKeyHolders(redis)).map(({ process }) => process).toSorted())
    .toEqual(['feed.a', 'feed.b'])
  for (const stop of stops) await stop()
  await redis.del('processes:root-keys')
})
