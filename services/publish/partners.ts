import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { createPartners, type Partners } from '../accounts/partners.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import { sleep } from '../runtime/platform/retry.ts'
import type { ServiceContext } from '../runtime/platform/run.ts'
import { topicName } from '../runtime/platform/topics.ts'
import type { PublishConfig } from './config.ts'

/** Whether a partner is revoked and its result topic is deleted. */
export type IsDeleted = (partner: string) => Promise<boolean>

/** The registered partners, and the check whether a partner is deleted. */
export function connectPartners (
  config: PublishConfig,
  connected: Pick<Connections, 'state' | 'bus'> & Partial<Pick<ServiceContext, 'metrics'>>
): { readonly partners: Partners, readonly isDeleted: IsDeleted } {
  const partners = createPartners({
    redis: connected.state, keys: connectOrganizationKeys('partners', config, connected),
  })
  return {
    partners,
    isDeleted: createDeletionCheck(partners, async topic =>
      (await connected.bus.topicNames()).has(topic)),
  }
}

/**
 * Checks whether a partner is revoked and its result topic is deleted. A missing topic of an active
 * partner may be an operator's mistake, so `publish` waits for that topic.
 */
export function createDeletionCheck (
  partners: Pick<Partners, 'find'>, topicExists: (topic: string) => Promise<boolean>
): IsDeleted {
  return async partner => {
    const registered = await partners.find(partner)
    if (registered === undefined || registered.revokedAtMs === 0) return false
    return !await topicExists(topicName('feeds.finished', { partner }))
  }
}

type DeletionWatch = {
  readonly isDeleted: () => Promise<boolean>
  /** Milliseconds between two checks. */
  readonly checkMs: number
  readonly signal: AbortSignal
}

/**
 * Runs a send until it ends or the partner is deleted; resolves to `partner_topic_deleted` then.
 * Sends are retried forever, and a deleted topic never comes back. A failed check counts as "not
 * deleted".
 */
export async function sendUnlessDeleted<T> (
  send: (signal: AbortSignal) => Promise<T>, { isDeleted, checkMs, signal }: DeletionWatch
): Promise<T | 'partner_topic_deleted'> {
  const done = new AbortController()
  const deleted = new AbortController()
  const watch = async () => {
    const watching = AbortSignal.any([signal, done.signal])
    do await sleep(checkMs, watching)
    while (!await isDeleted().catch(() => false))
    deleted.abort()
  }
  watch().catch(() => {})
  try {
    return await send(AbortSignal.any([signal, deleted.signal]))
  } catch (error) {
    if (!deleted.signal.aborted || signal.aborted) throw error
    return 'partner_topic_deleted'
  } finally {
    done.abort()
  }
}
