import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { runAudit } from '../support/audit.ts'
import { forgetOffsets, untilConsumed } from '../support/offsets.ts'
import { endSharedServices } from '../support/services.ts'
import { runJob, startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => { world = await startWorld() })
afterAll(async () => { await world.stop() })

describe('every topic read again from its beginning', () => {
  it('changes no balance, no result and no count', async () => {
    const inputs = mixedPhones(2_500, 3_000_000)
    const request = { service: 'phone-validation', inputs, countryCode: 'US' }
    const big = await runJob(world.live, request)
    const small = await runJob(world.live, { ...request, inputs: inputs.slice(0, 100) })
    const csvs = await Promise.all([big, small].map(({ job }) => world.live.results(job.id)))
    const only = [tenantOf(world.orgId, 'live')]
    const before = await runAudit(world.env, { only })
    await endSharedServices()

    await forgetOffsets(world.env)
    const again = await startWorld()
    await untilConsumed(world.env)

    const client = world.clientAt(again.baseUrl, 'live')
    const after = await runAudit(world.env, { only })
    expect(after).toEqual({ ...before, breaches: [] })
    expect(await Promise.all([big, small].map(({ job }) => client.job(job.id))))
      .toEqual([big.job, small.job])
    expect(await Promise.all([big, small].map(({ job }) => client.results(job.id)))).toEqual(csvs)
  })
})
