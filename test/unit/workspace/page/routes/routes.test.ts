import { describe, expect, it } from 'vitest'
import {
  field, forCustomer, visitOf, zoneIn,
} from '../../../../../services/workspace/page/context.ts'
import { balanceRoutes } from '../../../../../services/workspace/page/routes/balance.ts'
import { jobRoutes } from '../../../../../services/workspace/page/routes/jobs.ts'
import { keyRoutes } from '../../../../../services/workspace/page/routes/keys.ts'
import { liveRoutes } from '../../../../../services/workspace/page/routes/live.ts'
import { pipelineRoutes } from '../../../../../services/workspace/page/routes/pipeline.ts'
import { settingsRoutes } from '../../../../../services/workspace/page/routes/settings.ts'
import { sendPage, signInRoutes } from '../../../../../services/workspace/page/routes/sign-in.ts'
import { uploadRoutes } from '../../../../../services/workspace/page/routes/upload.ts'
import { createPageParts } from '../../../../support/page-parts.ts'

describe('the routes', () => {
  it('of customers are all behind the sign-in of customers', () => {
    const parts = createPageParts()
    const pace = { graceMs: 1_000, bytesPerSecond: 1, wholeWithinMs: 60_000 }
    const all = [balanceRoutes, jobRoutes, keyRoutes, liveRoutes, settingsRoutes]
      .flatMap(routes => routes(parts)).concat(uploadRoutes(parts, pace))
    expect(all.every(({ config }) => config?.access === 'customer')).toBe(true)
    expect(pipelineRoutes(parts).every(({ config }) => config?.access === 'operator')).toBe(true)
    expect(signInRoutes(parts)).toHaveLength(5)
    expect([field, forCustomer, visitOf, zoneIn, sendPage].every(one => one.length > 0)).toBe(true)
  })
})
