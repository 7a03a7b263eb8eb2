import { expect, it } from 'vitest'
import { ConfigError } from '../../../../services/lib/config.ts'
import { withInspector } from '../../../../services/ops/dead/inspector.ts'
import { withDeadLetters } from '../../../../services/ops/dead/parts.ts'

it('names the address that is missing', async () => {
  await expect(withDeadLetters({}, async () => 1)).rejects.toThrow('KAFKA_BROKERS is missing')
})

it('needs the key ring only to open, and then says so before anything is connected', async () => {
  const env = { SCHEMA_REGISTRY_URL: 'http://localhost:1', REDIS_STATE_URL: 'redis://localhost:1' }
  const options = { env, bus: undefined as never }
  const opened = withInspector({ ...options, open: true }, async () => 1)
  await expect(opened).rejects.toThrow(ConfigError)
  await expect(opened).rejects.toThrow('KEY_RING is missing')
  expect(await withInspector({ ...options, open: false }, inspector =>
    inspector.content(undefined as never))).toBeUndefined()
})
