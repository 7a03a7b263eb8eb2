import { createHash, randomBytes } from 'node:crypto'
import type { Redis } from 'ioredis'

/** Who a session is for: the people of one organization, or those who run the pipeline. */
export type Holder =
  | { readonly kind: 'customer', readonly orgId: string }
  | { readonly kind: 'operator' }

export type SignInCodes = ReturnType<typeof createSignInCodes>

/** How long a link to sign in works. */
export const SIGN_IN_WITHIN_MS = 600_000

const CODE_BYTES = 32
const keyOf = (code: string) => `page:sign-in:${digestOf(code)}`

/** What is stored instead of a code or of the id of a session, which are secrets. */
export function digestOf (secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/** A new secret that can't be guessed, made of characters that an address may have. */
export function newSecret (): string {
  return randomBytes(CODE_BYTES).toString('base64url')
}

/** Codes to sign in with, each good for one time within ten minutes; Redis knows their hashes. */
export function createSignInCodes (redis: Pick<Redis, 'set' | 'getdel'>) {
  return {
    async create (holder: Holder): Promise<string> {
      const code = newSecret()
      await redis.set(keyOf(code), JSON.stringify(holder), 'PX', SIGN_IN_WITHIN_MS)
      return code
    },

    /** Whom a code was made for, once; undefined when it is unknown, used or too old. */
    async redeem (code: string): Promise<Holder | undefined> {
      const text = await redis.getdel(keyOf(code))
      return text === null ? undefined : JSON.parse(text) as Holder
    },
  }
}
