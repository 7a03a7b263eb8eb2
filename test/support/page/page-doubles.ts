import type { AccessEvent } from '../../../services/accounts/access-log/entry.ts'
import type { JobStatusResource } from '../../../services/client/client.ts'
import type { PageDeps, Visit } from '../../../services/page/context.ts'
import { createPipelineMonitor } from '../../../services/page/pipeline/figures.ts'
import {
  createNonces, createSessions, createSignInCodes,
} from '../../../services/accounts/sessions.ts'
import { DEFAULT_POLICY } from '../../../services/accounts/organizations.ts'
import { memoryRedis } from '../../unit/accounts/memory-redis.ts'
import { peopleOn } from './stored-people.ts'

/** A double of Redis with the commands of the page, and the clock of a test. */
export function createPageRedis (now: () => number = Date.now) {
  const kept = new Map<string, { value: string, endsAtMs: number }>()
  const read = (key: string) => {
    const one = kept.get(key)
    return one === undefined || one.endsAtMs <= now() ? undefined : one
  }
  return {
    kept,
    get: async (key: string) => read(key)?.value ?? null,
    getdel: async (key: string) => {
      const value = read(key)?.value ?? null
      kept.delete(key)
      return value
    },
    set: async (...[key, value, , lifeMs, nx]: [string, string, 'PX', number, 'NX'?]) => {
      if (nx === 'NX' && read(key) !== undefined) return null
      kept.set(key, { value, endsAtMs: now() + lifeMs })
      return 'OK'
    },
    del: async (key: string) => kept.delete(key) ? 1 : 0,
    exists: async (key: string) => read(key) === undefined ? 0 : 1,
    pexpire: async (key: string, lifeMs: number) => {
      const one = read(key)
      if (one !== undefined) one.endsAtMs = now() + lifeMs
      return one === undefined ? 0 : 1
    },
  }
}

export const ORGANIZATION = {
  id: 'org_1', name: 'Ann & Sons <Ltd>', createdAtMs: 0, policy: DEFAULT_POLICY,
}
const LIMITS = { idleMs: 3_600_000, maxMs: 43_200_000 }

/** A job as the REST interface returns it. */
export const jobLike = (more: Partial<JobStatusResource> = {}): JobStatusResource => ({
  id: 'job_1',
  status: 'verifying',
  totalRows: 10,
  cacheHits: 2,
  freshRecords: 3,
  successRecords: 6,
  failedRecords: 1,
  createdAt: '2026-11-21T12:00:00.000Z',
  updatedAt: '2026-11-21T12:00:01.000Z',
  resultUrl: '/api/v1/jobs/job_1/results',
  service: 'phone-validation',
  invalidRows: 1,
  duplicateRows: 1,
  invalidRecords: 1,
  duplicateRecords: 1,
  unknownRecords: 0,
  cancelledRecords: 0,
  pendingRecords: 3,
  progressPercent: 70,
  maxQuoteMicros: 16_000,
  chargedMicros: 0,
  releasedMicros: 0,
  metadata: {},
  completedAt: null,
  hasOriginalColumns: false,
  erasedAt: null,
  erasureCompletedAt: null,
  ...more,
})

/** The changes when that job ends. */
export const ended = { status: 'completed', completedAt: '2026-11-21T12:00:02.000Z' } as const

/** The people of that organization and of `org_2`, in memory. */
function createPagePeople () {
  const { redis, hashes } = memoryRedis()
  for (const id of [ORGANIZATION.id, 'org_2']) {
    hashes.set(`{global}:org:${id}`, { revision: '1', name: ORGANIZATION.name })
  }
  return peopleOn(redis)
}

/** Doubles of the dependencies of all pages; `client` is the REST client. */
export function createPageDeps (
  client: object = {}, more: Partial<PageDeps> = {}
): PageDeps & {
  readonly redis: ReturnType<typeof createPageRedis>
  readonly recorded: AccessEvent[]
} {
  const redis = createPageRedis()
  const recorded: AccessEvent[] = []
  const forPages = redis as never
  return {
    redis,
    recorded,
    sessions: createSessions({ redis: forPages, limits: LIMITS }),
    signInCodes: createSignInCodes(forPages),
    nonces: createNonces(forPages),
    rest: { of: async () => client as never },
    organizations: {
      find: async id => id === ORGANIZATION.id ? ORGANIZATION : undefined,
      setPolicy: async () => {},
      isErased: async () => false,
    },
    people: createPagePeople(),
    apiKeys: {
      create: async () => ({ id: 'key_1', secret: 'vj_live_secret', expiresAtMs: 0 }),
      list: async () => [],
      revoke: async () => true,
      roll: async () => undefined,
    },
    webhookSecrets: { rotate: async () => 'whsec_secret', active: async () => [] },
    journal: { readNewest: async () => [] },
    accessLog: {
      append: async event => {
        recorded.push(event)
        return event.entryId ?? ''
      },
      withdraw: async id => {
        recorded.splice(recorded.findIndex(({ entryId }) => entryId === id), 1)
        return true
      },
    },
    accessCopy: { newest: async () => [] },
    pipelineStatus: createPipelineMonitor({ targets: [], targetsFile: '' }),
    ready: () => true,
    ...more,
  }
}

/** A visit of that organization in live mode, by a link. */
export const visitLike = (mode: 'live' | 'test' = 'live'): Visit => ({
  tenant: { orgId: ORGANIZATION.id, mode },
  organization: ORGANIZATION,
  visitor: {
    id: 'id',
    session: {
      subject: { kind: 'customer', orgId: ORGANIZATION.id },
      token: 'form-token',
      endsAtMs: 1,
      authenticatedAtMs: Date.now(),
    },
  },
  zone: 'UTC',
  client: {} as never,
})
