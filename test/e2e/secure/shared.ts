import { openRedis } from '../../support/redis/open-redis.ts'
import { startReceiver } from '../../support/webhooks/receiver.ts'
import {
  startSecureEnvironment, type SecureEnvironment,
} from '../../support/stacks/secure-stack.ts'

export const receiver = await startReceiver()

let started: SecureEnvironment | undefined
let state: ReturnType<typeof openRedis> | undefined

export async function start (): Promise<void> {
  started = await startSecureEnvironment({
    WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_LOOPBACK: 'true',
  })
  state = openRedis(String(started.env['REDIS_STATE_URL']))
}

export async function stop (): Promise<void> {
  state?.disconnect()
  await started?.close()
}

/** The stack, once it is started. */
export function secure (): SecureEnvironment & { readonly redis: ReturnType<typeof openRedis> } {
  if (started === undefined || state === undefined) throw new Error('the stack is not started')
  return { ...started, redis: state }
}
