import { expect, it } from 'vitest'
import {
  countOpenJobs, jobsText, listOpenJobs, withJobs, type OpenJobsDeps,
} from '../../../services/admin/jobs.ts'
import { endedJob } from '../../support/webhooks/deliveries.ts'

const NOW_MS = 1_000_000
const open: Record<string, readonly { job: string, sinceMs: number }[]> = {
  'org_1.live': [{ job: 'job_a', sinceMs: NOW_MS - 440_000 }],
  'org_1.test': [{ job: 'job_b', sinceMs: NOW_MS - 400_000 }],
  'org_12.live': [{ job: 'job_gone', sinceMs: NOW_MS - 60_000 }],
}
const updatedAtMs: Record<string, number> = { job_a: NOW_MS - 5_000, job_b: NOW_MS - 430_000 }
const deps: OpenJobsDeps = {
  tenants: async () => Object.keys(open),
  nowMs: async () => NOW_MS,
  store: {
    openJobs: async tenant => [...open[tenant] ?? []],
    read: async (tenant, id) => id === 'job_gone'
      ? undefined
      : endedJob({
        id,
        tenant,
        status: 'verifying',
        createdAtMs: NOW_MS - 450_000,
        updatedAtMs: updatedAtMs[id] ?? 0,
      }),
  },
}
const all = { idleForSeconds: 0, limit: 50 }
const idsOf = async (query: object) =>
  (await listOpenJobs(deps, { ...all, ...query })).jobs.map(({ id }) => id)

it('open jobs are listed by the time without progress', async () => {
  const { jobs, open: count } = await listOpenJobs(deps, { ...all, limit: 2 })
  expect(count).toBe(3)
  expect(jobs).toEqual([
    {
      id: 'job_b',
      tenant: 'org_1.test',
      service: 'phone-validation',
      lane: 'small',
      status: 'verifying',
      rowsDone: endedJob().counts.finishedRows,
      rows: 10,
      ageSeconds: 450,
      idleSeconds: 400,
    },
    expect.objectContaining({ id: 'job_gone', status: null, rows: null, idleSeconds: 60 }),
  ])
  expect(await countOpenJobs(deps)).toBe(3)
})

it('open jobs are filtered by organization, tenant or time without progress', async () => {
  expect(await idsOf({ tenant: 'org_1' })).toEqual(['job_b', 'job_a'])
  expect(await idsOf({ tenant: 'org_1.live' })).toEqual(['job_a'])
  expect(await idsOf({ idleForSeconds: 60 })).toEqual(['job_b', 'job_gone'])
})

it('open jobs are formatted as a table, or as a sentence when there are none', async () => {
  const text = jobsText(await listOpenJobs(deps, { ...all, limit: 2 }), (style, text) =>
    style === 'red' ? `!${text.trim()}!` : text)
  const lines = text.split('\n')
  expect(lines[1])
    .toMatch(/^job_b +org_1\.test +phone-validation +verifying +\d+\/10 .*!6 min 40 s!/)
  expect(lines.at(-1)).toBe('3 jobs open. 1 more than --limit shows.')
  expect(jobsText({ jobs: [], open: 0 }, (_, text) => text))
    .toBe('No open job matches.')
})

it('the list of open jobs needs REDIS_STATE_URL before it connects', async () => {
  await expect(withJobs({}, async () => {})).rejects.toThrow('REDIS_STATE_URL is missing')
})
