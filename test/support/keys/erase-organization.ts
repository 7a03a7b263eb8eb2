import { eraseOrganization } from '../../../services/admin/erasure.ts'
import { processWith, rootsOf } from './key-processes.ts'
import { redis, stores } from './wrapped-keys.ts'

/** Erases an organization with stores of `wrapped-keys.ts`, without waiting for anything. */
export async function erase (orgId: string, onProgress: (line: string) => void = () => {}) {
  const { partners } = processWith(rootsOf(1))
  const deps = { ...stores, cache: redis, partners, sleep: async () => {} } as never
  return await eraseOrganization(deps, orgId, { deadlineMs: 0, onProgress })
}
