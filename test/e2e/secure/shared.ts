import { closeAfterAll } from '../../support/close-after-all.ts'
import { openRedis } from '../../support/redis/open-redis.ts'
import { startSecureEnvironment } from '../../support/stacks/secure-stack.ts'
import { startReceiver } from '../../support/webhooks/receiver.ts'

export const receiver = await startReceiver()
export const secure = await startSecureEnvironment({
  WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_LOOPBACK: 'true',
})
export const redis = closeAfterAll(openRedis(String(secure.env['REDIS_STATE_URL'])))
