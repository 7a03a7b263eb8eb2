import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Created, JobRequest } from '../../services/client/client.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { parseCsv, startWorld, type World } from '../support/world.ts'

const ROWS = 12_000

let world: World
beforeAll(async () => { world = await startWorld() })
afterAll(async () => { await world.stop() })

/** Posts as a careful client does: with one key, again whenever connection or service fails. */
async function postUntilAccepted (request: JobRequest): Promise<Created> {
  const key = randomUUID()
  for (let attempt = 1; ; attempt++) {
    try {
      return await world.live.createJob(request, key)
    } catch (error) {
      if (attempt === 60) throw error
      await new Promise(resolve => setTimeout(resolve, 500))
    }
  }
}

const accepted = ['verify', 'settle', 'ledger']

async function killInTheMiddle (stage: string, posting: Promise<Created>): Promise<void> {
  if (!accepted.includes(stage)) {
    await new Promise(resolve => setTimeout(resolve, 300))
  } else {
    const { id } = await posting
    await world.live.waitForEnd(id, {
      pollEveryMs: 10,
      onProgress: job => { if (job.progressPercent > 10) throw new Error('in the middle') },
    }).catch(() => {})
  }
  world.services.kill(`${stage}-1`, 'SIGKILL')
}

describe('a service killed in the middle of a job', () => {
  const stages = ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger']
  it.each(stages.map((stage, index) => [stage, index] as const))(
    '%s: the job completes, every row once, every micro explained', async (stage, index) => {
      const inputs = mixedPhones(ROWS, 1_000_000 + index * ROWS)
      const request = { service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true }
      const posting = postUntilAccepted(request)
      await killInTheMiddle(stage, posting)
      const created = await posting
      const job = await world.live.waitForEnd(created.id, { timeoutMs: 90_000 }).catch(async () =>
        await world.live.waitForEnd(created.id, { timeoutMs: 20_000 }))
      expect(job.status).toBe('completed')
      const rows = parseCsv(await world.live.results(created.id))
      expect(rows.map(row => row.input)).toEqual(inputs)
      expect(rows.map(row => row.row)).toEqual(inputs.map((_, row) => String(row + 1)))
      expect(job.successRecords + job.failedRecords).toBe(ROWS)
      expect(job.cacheHits + job.freshRecords + job.invalidRows + job.duplicateRows).toBe(ROWS)
      expect(await world.breaches()).toEqual([])
    })
})
