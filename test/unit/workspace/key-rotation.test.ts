import { expect, it } from 'vitest'
import { ConfigError } from '../../../services/platform/config.ts'
import {
  listEncryptionKeys, rewrapKeys, rotationNote,
} from '../../../services/workspace/key-commands.ts'
import type { KeyReport } from '../../../services/workspace/key-report.ts'
import { withStores } from '../../../services/workspace/stores.ts'

const root = {
  class: 'results', id: '1', configured: true, isActive: false, wraps: 0, isFree: true,
} as const
const none = {
  jobKeys: 0, jobKeysInTopic: 0, jobKeysInClickhouse: 0, webhookSecrets: 0, partnerKeys: 0,
}

it('the note on keys names those to remove, and those to put back', () => {
  const noteOn = (report: Partial<KeyReport>) =>
    rotationNote({ rootKeys: [], replaced: [], broken: 0, lacking: [], ...report })
  expect(noteOn({ rootKeys: [root] })).toContain('Nothing is wrapped by "1" of RESULTS_ROOT_KEYS')
  expect(noteOn({ rootKeys: [{ ...root, isFree: false }] })).toContain('"keys rewrap"')
  const replaced = { organization: 'org_1', key: 'results.1', exists: true, wraps: none }
  expect(noteOn({ replaced: [replaced] })).toContain('replaced but not deleted yet')
  expect(noteOn({ lacking: ['key "1" of RESULTS_ROOT_KEYS'] }))
    .toContain('Missing, but still needed: key "1" of RESULTS_ROOT_KEYS')
})

it('key commands report missing settings before they connect to anything', async () => {
  await expect(listEncryptionKeys({})).rejects.toThrow('RESULTS_ROOT_KEYS is missing')
  await expect(rewrapKeys({})).rejects.toThrow('PARTNERS_ROOT_KEY_ACTIVE is missing')
  await expect(withStores({}, async () => {})).rejects.toThrow(ConfigError)
})
