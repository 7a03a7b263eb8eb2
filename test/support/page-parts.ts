import type { JobStatusResource } from '../../services/client/client.ts'
import type { PageParts, Visit } from '../../services/workspace/page/context.ts'
import { createOnce } from '../../services/workspace/page/once.ts'
import { DEFAULT_POLICY } from '../../services/accounts/policy.ts'
import { createFlows } from '../../services/workspace/page/pipeline/flows.ts'
import { createSessions } from '../../services/workspace/page/sessions.ts'
import { createSignInCodes } from '../../services/workspace/page/sign-in-codes.ts'

/** As much of Redis as the page's own keys need, with times that a test moves. */
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
export const TIMES = { idleMs: 3_600_000, wholeMs: 43_200_000 }

/** A job as the interface tells of it. */
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
  progressPercent: 70,
  maxQuoteMicros: 16_000,
  chargedMicros: 0,
  releasedMicros: 0,
  metadata: {},
  completedAt: null,
  ...more,
})

/** The end of that job. */
export const ended = { status: 'completed', completedAt: '2026-11-21T12:00:02.000Z' } as const

/** Doubles of everything that pages are made from; `client` answers as the interface would. */
export function createPageParts (
  client: object = {}, more: Partial<PageParts> = {}
): PageParts & { readonly redis: ReturnType<typeof createPageRedis> } {
  const redis = createPageRedis()
  const forPages = redis as never
  return {
    redis,
    sessions: createSessions({ redis: forPages, times: TIMES }),
    signInCodes: createSignInCodes(forPages),
    once: createOnce(forPages),
    rest: { of: async () => client as never, forget: () => {} },
    organizations: {
      find: async id => id === ORGANIZATION.id ? ORGANIZATION : undefined,
      setPolicy: async () => {},
    },
    apiKeys: {
      create: async () => ({ id: 'key_1', secret: 'vj_live_secret' }),
      list: async () => [],
      revoke: async () => true,
      roll: async () => undefined,
    },
    webhookSecrets: { rotate: async () => 'whsec_secret', active: async () => [] },
    movements: async () => ({ movements: [], before: undefined }),
    flows: createFlows({ targets: [], targetsFile: '' }),
    ready: () => true,
    ...more,
  }
}

/** A visit of that organization in live mode. */
export const visitLike = (mode: 'live' | 'test' = 'live'): Visit => ({
  tenant: { orgId: ORGANIZATION.id, mode },
  organization: ORGANIZATION,
  visitor: {
    id: 'id',
    session: {
      holder: { kind: 'customer', orgId: ORGANIZATION.id }, token: 'form-token', endsAtMs: 1,
    },
  },
  zone: 'UTC',
  client: {} as never,
})
