import { expect, it } from 'vitest'
import { ConfigError } from '../../../services/platform/config.ts'
import {
  listEncryptionKeys, rotationNote, rewrapKeys,
} from '../../../services/workspace/key-rotation.ts'
import { withStores } from '../../../services/workspace/stores.ts'

const wraps = {
  jobKeys: 0,
  jobKeysInTopic: 0,
  jobKeysInClickhouse: 0,
  webhookSecrets: 0,
  partnerKeys: 0,
  requestSecrets: 0,
}
const active = {
  kid: 'k2', inRing: true, isActive: true, isFree: false, wraps: { ...wraps, jobKeys: 1 },
}
const other = { kid: 'k1', inRing: true, isActive: false, isFree: true, wraps }

it('the note on the key ring names keys to remove and keys to put back', () => {
  const noteOn = (keys: readonly typeof other[], lacking: readonly string[] = []) =>
    rotationNote({ keys, lacking, broken: 0 })
  expect(noteOn([active, other])).toContain('Nothing is wrapped by k1')
  expect(noteOn([active, { ...other, isFree: false }])).toContain('"keys rewrap"')
  expect(noteOn([active], ['k0']))
    .toBe('KEY_RING lacks k0, which still wraps stored keys: put it back.')
})

it('key commands report missing settings before they connect to anything', async () => {
  await expect(listEncryptionKeys({})).rejects.toThrow('KEY_RING is missing')
  await expect(rewrapKeys({})).rejects.toThrow('KEY_ACTIVE is missing')
  await expect(withStores({}, async () => {})).rejects.toThrow(ConfigError)
})
