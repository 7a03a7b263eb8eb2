import { expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { runAudit } from '../support/audit.ts'
import { forgetOffsets, untilConsumed } from '../support/kafka/offsets.ts'
import { endSharedServices } from '../support/stacks/services.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'

const environment = closeAfterAll(await startEnvironment())
const receiver = await startReceiver()

it('every topic read again from its beginning ' +
  'changes no balance, no result and no count', async () => {
  const inputs = mixedPhones(2_500, 3_000_000)
  const request = { service: 'phone-validation', inputs, countryCode: 'US' }
  const big = await runJob(environment.live, request)
  const small = await runJob(environment.live, {
    ...request,
    inputs: inputs.slice(0, 100),
    webhook_url: `http://127.0.0.1:${receiver.port}/ended`,
  })
  await receiver.until(1, '/ended')
  const csvs = await Promise.all([big, small].map(({ job }) => environment.live.results(job.id)))
  const only = [tenantOf(environment.orgId, 'live')]
  const before = await runAudit(environment.env, { only })
  await endSharedServices()

  await forgetOffsets(environment.env)
  const again = await startEnvironment()
  await untilConsumed(environment.env)

  const client = environment.clientAt(again.baseUrl, 'live')
  const after = await runAudit(environment.env, { only })
  expect(after).toEqual({ ...before, breaches: [] })
  expect(await Promise.all([big, small].map(({ job }) => client.job(job.id))))
    .toEqual([big.job, small.job])
  expect(await Promise.all([big, small].map(({ job }) => client.results(job.id)))).toEqual(csvs)
  expect(receiver.received).toHaveLength(1)
})
