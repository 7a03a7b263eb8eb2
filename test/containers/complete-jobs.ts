import { parse } from 'csv-parse/sync'
import { expect } from 'vitest'
import type { Client, JobStatusResource } from '../../services/client/client.ts'
import { mixedPhones } from '../bench/jobs.ts'

const ROWS = 5_000
let serial = 0

/** Sends a job of contacts that no other job has. */
export async function send (client: Client): Promise<string> {
  const inputs = mixedPhones(ROWS, serial)
  serial += ROWS
  const { id } = await client.createJob({ service: 'phone-validation', inputs, countryCode: 'US' })
  return id
}

/** Waits for the end of a job, and expects each of its rows in its file. */
export async function expectComplete (client: Client, id: string): Promise<JobStatusResource> {
  const job = await client.waitForEnd(id)
  expect(job).toMatchObject({ status: 'completed', totalRows: ROWS })
  expect(job.successRecords + job.failedRecords).toBe(ROWS)
  expect(parse(await client.results(id))).toHaveLength(ROWS + 1)
  return job
}
