import type { Redis } from 'ioredis'
import { digestOf, newSecret, type Holder } from './sign-in-codes.ts'

/** A signed-in browser. `token` is what its forms carry, so that no other site can send them. */
export type Session = {
  readonly holder: Holder
  readonly token: string
  readonly endsAtMs: number
}

/** How long a session lasts: without a request, and in any case. */
export type SessionTimes = { readonly idleMs: number, readonly wholeMs: number }

export type Sessions = ReturnType<typeof createSessions>

type Options = {
  readonly redis: Pick<Redis, 'get' | 'set' | 'del' | 'pexpire' | 'exists'>
  readonly times: SessionTimes
  readonly now?: () => number
}

const keyOf = (id: string) => `page:session:${digestOf(id)}`

/** The sessions, in Redis under the hash of their id, until they are idle for too long or old. */
export function createSessions ({ redis, times, now = Date.now }: Options) {
  return {
    /** Begins a session; its id goes into the cookie and nowhere else. */
    async begin (holder: Holder): Promise<{ readonly id: string, readonly session: Session }> {
      const id = newSecret()
      const session = { holder, token: newSecret(), endsAtMs: now() + times.wholeMs }
      await redis.set(keyOf(id), JSON.stringify(session), 'PX', lifeMs(times, session, now()))
      return { id, session }
    },

    /** The session of an id, which goes on from now; undefined when there is none. */
    async find (id: string): Promise<Session | undefined> {
      const text = await redis.get(keyOf(id))
      if (text === null) return undefined
      const session = JSON.parse(text) as Session
      const leftMs = lifeMs(times, session, now())
      if (leftMs <= 0) return undefined
      await redis.pexpire(keyOf(id), leftMs)
      return session
    },

    /** Whether a session is still there; asking does not make it last longer. */
    isThere: async (id: string): Promise<boolean> => await redis.exists(keyOf(id)) === 1,

    /** Ends a session at once, everywhere. */
    async end (id: string): Promise<void> {
      await redis.del(keyOf(id))
    },
  }
}

function lifeMs ({ idleMs }: SessionTimes, { endsAtMs }: Session, nowMs: number): number {
  return Math.min(idleMs, endsAtMs - nowMs)
}
