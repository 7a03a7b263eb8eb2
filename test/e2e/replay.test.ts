import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { runAudit } from '../../services/workspace/audit-command.ts'
import { forgetOffsets, untilConsumed } from '../support/offsets.ts'
import { startAll } from '../support/services.ts'
import { runJob, startWorld, type World } from '../support/world.ts'
import { createClient } from '../../services/client/client.ts'

let world: World
let stop: () => Promise<void> = async () => {}
beforeAll(async () => {
  world = await startWorld()
  stop = world.stop
})
afterAll(async () => { await stop() })

describe('every topic read again from its beginning', () => {
  it('changes no balance, no result and no count', async () => {
    const inputs = mixedPhones(2_500, 3_000_000)
    const request = { service: 'phone-validation', inputs, countryCode: 'US' }
    const big = await runJob(world.live, request)
    const small = await runJob(world.live, { ...request, inputs: inputs.slice(0, 100) })
    const csvs = await Promise.all([big, small].map(({ job }) => world.live.results(job.id)))
    const only = [tenantOf(world.orgId, 'live')]
    const before = await runAudit(world.env, { only })
    await world.stop()

    await forgetOffsets(world.env)
    const services = await startAll({ env: world.env })
    stop = services.stop
    await untilConsumed(world.env, 180_000)

    const client = createClient({ baseUrl: services.baseUrl, apiKey: world.keys.live })
    const after = await runAudit(world.env, { only })
    expect(after).toEqual({ ...before, breaches: [] })
    expect(await Promise.all([big, small].map(({ job }) => client.job(job.id))))
      .toEqual([big.job, small.job])
    expect(await Promise.all([big, small].map(({ job }) => client.results(job.id)))).toEqual(csvs)
  }, 240_000)
})
