import { hash, randomBytes } from 'node:crypto'
import type { RedisClient } from '../runtime/platform/redis.ts'

/**
 * Who is signed in: for one organization, a person or the holder of a link; or an operator of the
 * pipeline.
 */
export type SignedIn =
  | { readonly kind: 'customer', readonly orgId: string, readonly person?: SessionPerson }
  | { readonly kind: 'operator' }

/** The session has ended when the person has another generation. */
type SessionPerson = { readonly id: string, readonly generation: number }

/** How long a sign-in link is valid. */
export const SIGN_IN_LINK_MS = 600_000

const NONCE_MS = 3_600_000
const SECRET_BYTES = 32

/** A random secret with 256 bits, as base64url. */
function newSessionSecret (): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

/** The hex SHA-256 of a secret; Redis stores digests, never secrets. */
export function secretDigest (secret: string): string {
  return hash('sha256', secret)
}

export type SignInCodes = ReturnType<typeof createSignInCodes>

/** The codes in sign-in links. Each is valid once, within ten minutes. */
export function createSignInCodes (redis: RedisClient) {
  const codeKey = (code: string) => `page:sign-in:${secretDigest(code)}`
  return {
    async create (subject: SignedIn): Promise<string> {
      const code = newSessionSecret()
      await redis.set(codeKey(code), JSON.stringify(subject), 'PX', SIGN_IN_LINK_MS)
      return code
    },

    /** The subject of a code, which is used up; undefined for unknown and expired codes. */
    async redeem (code: string): Promise<SignedIn | undefined> {
      const text = await redis.getdel(codeKey(code))
      return text === null ? undefined : JSON.parse(text) as SignedIn
    },
  }
}

/** A signed-in browser. Its forms carry `token`, so no other site can submit them. */
export type Session = {
  readonly subject: SignedIn
  readonly token: string
  readonly endsAtMs: number
  /** When the browser used its link, or the person authenticated; 0 if the provider hides it. */
  readonly authenticatedAtMs: number
}

/** How long a session lasts: without a request, and at most. */
type SessionLimits = { readonly idleMs: number, readonly maxMs: number }

export type Sessions = ReturnType<typeof createSessions>

/** Stores sessions in Redis under the digest of their id, with a time to live. */
export function createSessions ({ redis, limits, now = Date.now }: {
  readonly redis: RedisClient,
  readonly limits: SessionLimits,
  readonly now?: () => number
}) {
  const sessionKey = (id: string) => `page:session:${secretDigest(id)}`
  const timeToLiveMs = ({ endsAtMs }: Session) => Math.min(limits.idleMs, endsAtMs - now())
  return {
    /** Creates a session. Its id goes into the cookie and nowhere else. */
    async create (
      subject: SignedIn, authenticatedAtMs: number = now()
    ): Promise<{ readonly id: string, readonly session: Session }> {
      const id = newSessionSecret()
      const endsAtMs = now() + limits.maxMs
      const session = { subject, token: newSessionSecret(), endsAtMs, authenticatedAtMs }
      await redis.set(sessionKey(id), JSON.stringify(session), 'PX', timeToLiveMs(session))
      return { id, session }
    },

    /** Finds a session and restarts its idle time; undefined when it does not exist. */
    async find (id: string): Promise<Session | undefined> {
      const text = await redis.get(sessionKey(id))
      if (text === null) return undefined
      const session = JSON.parse(text) as Session
      const leftMs = timeToLiveMs(session)
      if (leftMs <= 0) return undefined
      await redis.pexpire(sessionKey(id), leftMs)
      return session
    },

    /** Whether a session exists. Does not restart its idle time. */
    exists: async (id: string): Promise<boolean> => await redis.exists(sessionKey(id)) === 1,

    /** Ends a session in all processes at once. */
    async end (id: string): Promise<void> {
      await redis.del(sessionKey(id))
    },
  }
}

export type Nonces = ReturnType<typeof createNonces>

/** Nonces of forms that create a secret: submitting such a form again creates no second secret. */
export function createNonces (redis: RedisClient) {
  const nonceKey = (nonce: string) => `page:once:${secretDigest(nonce)}`
  return {
    create: newSessionSecret,

    /** True the first time a nonce is used. */
    async use (nonce: string): Promise<boolean> {
      return nonce !== '' && await redis.set(nonceKey(nonce), '1', 'PX', NONCE_MS, 'NX') !== null
    },

    /** Lets a nonce be used once more, because its form was refused. */
    async free (nonce: string): Promise<void> {
      await redis.del(nonceKey(nonce))
    },
  }
}
