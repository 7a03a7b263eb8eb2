import type { RouteOptions } from 'fastify'
import { createDocument, sendDocument } from '../runtime/platform/documents.ts'
import { accessLogRoutes } from './access-log.ts'
import { assets } from './layout.ts'
import { balanceRoutes } from './balance.ts'
import type { PageDeps } from './context.ts'
import { eraseRoutes, jobPageRoutes } from './jobs.ts'
import { keyRoutes } from './keys.ts'
import { liveRoutes } from './live.ts'
import { peopleRoutes } from './people.ts'
import { pipelineRoutes } from './pipeline/page.ts'
import { signInRoutes } from './provider-sign-in.ts'
import { settingsRoutes } from './settings.ts'
import { uploadRoutes } from './upload.ts'
import { usageRoutes } from './usage.ts'
import { webhookRoutes } from './webhooks.ts'

/** Every page and every form. `pace` is the minimum throughput of uploads. */
export function pageRoutes (
  deps: PageDeps, pace: Parameters<typeof uploadRoutes>[1]
): readonly RouteOptions[] {
  return [
    ...signInRoutes(deps),
    ...balanceRoutes(deps),
    ...jobPageRoutes(deps),
    ...eraseRoutes(deps),
    ...usageRoutes(deps),
    ...liveRoutes(deps),
    ...uploadRoutes(deps, pace),
    ...keyRoutes(deps),
    ...settingsRoutes(deps),
    ...webhookRoutes(deps),
    ...accessLogRoutes(deps),
    ...peopleRoutes(deps),
    ...pipelineRoutes(deps),
  ]
}

/** The name, access and log entry of every route, for the documentation. Runs no handler. */
export function pageDefinitions () {
  // Routes use what they are given only when they handle a request.
  return pageRoutes({} as PageDeps, { graceMs: 0, bytesPerSecond: 1, completeWithinMs: 1 })
    .map(({ method, url, config: { access, records } = {} }) => {
      if (access === undefined) throw new Error(`route ${url} has no access in its config`)
      return { name: `${String(method)} ${url}`, access, records }
    })
}

/** Files with a content hash in their path, so that browsers may cache them forever. */
export function assetRoutes (): readonly RouteOptions[] {
  return [...assets.values()].map(({ path, type, content }) => {
    const document = createDocument(type, content)
    return {
      method: 'GET',
      url: path,
      config: { access: 'everybody' },
      handler: async (request, reply) => sendDocument(request, reply, {
        document: await document, cacheControl: 'public, max-age=31536000, immutable',
      }),
    }
  })
}
