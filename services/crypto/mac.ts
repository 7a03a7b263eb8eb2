import { createHmac, createSecretKey, hkdfSync, timingSafeEqual, type KeyObject } from 'node:crypto'

/** The keys of `MESSAGE_KEYS`, 32 bytes of base64 by key id, and the id of the signing key. */
export type MessageKeySettings = {
  readonly MESSAGE_KEYS: Readonly<Record<string, string>>
  readonly MESSAGE_KEY_ACTIVE: string
}

/** Signs content for a purpose. A MAC for one purpose is not authentic for another. */
export type Mac = {
  /** `<key id>:<base64>`. How the content is split does not matter. */
  readonly sign: (purpose: string, content: Content) => string
  readonly isAuthentic: (mac: string, purpose: string, content: Content) => boolean
}

type Content = readonly (string | Buffer)[]

/**
 * HMAC-SHA-256 with one subkey (HKDF) per purpose. The active key signs; the MACs of all keys are
 * authentic.
 * @throws TypeError when the active key is not among the keys.
 */
export function createMac (
  { MESSAGE_KEYS: keys, MESSAGE_KEY_ACTIVE: active }: MessageKeySettings
): Mac {
  if (keys[active] === undefined) {
    throw new TypeError(`MESSAGE_KEYS has no key "${active}", which MESSAGE_KEY_ACTIVE names: ` +
      'add it')
  }
  const subkeys = new Map<string, KeyObject>()
  const digestOf = (kid: string, purpose: string, content: Content): Buffer | undefined => {
    const secret = Object.hasOwn(keys, kid) ? keys[kid] : undefined
    if (secret === undefined) return undefined
    const name = `${kid} ${purpose}`
    const key = subkeys.get(name) ?? subkeyOf(secret, purpose)
    subkeys.set(name, key)
    const hmac = createHmac('sha256', key)
    for (const piece of content) hmac.update(piece)
    return hmac.digest()
  }
  return {
    sign: (purpose, content) =>
      `${active}:${digestOf(active, purpose, content)?.toString('base64') ?? ''}`,
    isAuthentic: (mac, purpose, content) => {
      const [kid = '', given = ''] = mac.split(':')
      const expected = digestOf(kid, purpose, content)
      const digest = Buffer.from(given, 'base64')
      return digest.length === expected?.length && timingSafeEqual(digest, expected)
    },
  }
}

function subkeyOf (secret: string, purpose: string): KeyObject {
  return createSecretKey(Buffer.from(
    hkdfSync('sha256', Buffer.from(secret, 'base64'), '', purpose, 32)))
}
