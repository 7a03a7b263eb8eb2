import { createMessageMac, type MessageMac } from '../../services/lib/message-mac.ts'

/** Message keys as configuration, for what is never connected to brokers. */
export const MESSAGE_KEY_ENV = {
  MESSAGE_KEYS: JSON.stringify({ 1: Buffer.alloc(32, 1).toString('base64') }),
  MESSAGE_KEY_ACTIVE: '1',
} as const

type Env = Readonly<Record<string, string>>

/** The keys in the environment of a stack, as services have them. */
export const messageKeysOf = (env: Env = MESSAGE_KEY_ENV) => ({
  MESSAGE_KEYS: JSON.parse(env['MESSAGE_KEYS'] ?? '{}') as Env,
  MESSAGE_KEY_ACTIVE: env['MESSAGE_KEY_ACTIVE'] ?? '',
})

/** Signs as the services of a stack do. */
export const messageMacOf = (env: Env): MessageMac => createMessageMac(messageKeysOf(env))
