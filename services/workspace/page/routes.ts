import type { RouteOptions } from 'fastify'
import type { Pace } from '../../lib/body-pace.ts'
import type { PageParts } from './context.ts'
import { balanceRoutes } from './routes/balance.ts'
import { jobRoutes } from './routes/jobs.ts'
import { keyRoutes } from './routes/keys.ts'
import { liveRoutes } from './routes/live.ts'
import { pipelineRoutes } from './routes/pipeline.ts'
import { settingsRoutes } from './routes/settings.ts'
import { signInRoutes } from './routes/sign-in.ts'
import { uploadRoutes } from './routes/upload.ts'

/** Every page and every form. */
export function pageRoutes (parts: PageParts, pace: Pace): readonly RouteOptions[] {
  return [
    ...signInRoutes(parts),
    ...balanceRoutes(parts),
    ...jobRoutes(parts),
    ...liveRoutes(parts),
    ...uploadRoutes(parts, pace),
    ...keyRoutes(parts),
    ...settingsRoutes(parts),
    ...pipelineRoutes(parts),
  ]
}
