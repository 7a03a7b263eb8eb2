import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { mobileNumber } from '../bench/jobs.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { newFolder } from '../support/folder.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

const plans = join(newFolder('verification-jobs-failpoints-'), 'plans')
writeFileSync(plans, '')
const environment = closeAfterAll(await startEnvironment({
  ALLOW_FAILPOINTS: 'true',
  FAILPOINTS: `@${plans}`,
}, { stages: ['ingest', 'verify'] }))

const verify = () => environment.services.list().find(({ name }) => name === 'verify-1')

it('a message that kills each process of its stage is set aside, and all others are decided',
  async () => {
    const before = verify()?.pid
    writeFileSync(plans, 'verify.decode:kill@chunk=1')
    const inputs = Array.from({ length: 4_500 }, (_, row) => mobileNumber(row))
    const { id } = await environment.live.createJob({
      service: 'phone-validation', inputs, forceFresh: true,
    })
    const job = await environment.live.waitForEnd(id, { timeoutMs: 300_000 })
    writeFileSync(plans, '')
    expect(verify()?.pid).not.toBe(before)
    expect([job.status, job.freshRecords]).toEqual(['completed', 2_500])
    expect(await environment.breaches()).toEqual([])
  })
