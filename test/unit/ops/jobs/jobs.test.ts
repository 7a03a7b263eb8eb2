import { expect, it } from 'vitest'
import type { OpenJobsParts } from '../../../../services/ops/jobs/open-jobs.ts'
import { countOpenJobs, listOpenJobs } from '../../../../services/ops/jobs/open-jobs.ts'
import { withJobs } from '../../../../services/ops/jobs/parts.ts'
import { jobsText } from '../../../../services/ops/jobs/text.ts'
import { endedJob } from '../../../support/deliveries.ts'

const NOW_MS = 1_000_000
const open: Record<string, readonly { job: string, progressAtMs: number }[]> = {
  'org_1.live': [{ job: 'job_a', progressAtMs: NOW_MS - 5_000 }],
  'org_1.test': [{ job: 'job_b', progressAtMs: NOW_MS - 400_000 }],
  'org_12.live': [{ job: 'job_gone', progressAtMs: NOW_MS - 60_000 }],
}
const parts: OpenJobsParts = {
  tenants: async () => Object.keys(open),
  nowMs: async () => NOW_MS,
  store: {
    openJobs: async tenant => [...open[tenant] ?? []],
    read: async (tenant, id) => id === 'job_gone'
      ? undefined
      : endedJob({ id, tenant, status: 'verifying', createdAtMs: NOW_MS - 450_000 }),
  },
}
const all = { idleForSeconds: 0, limit: 50 }
const idsOf = async (wish: object) =>
  (await listOpenJobs(parts, { ...all, ...wish })).jobs.map(({ id }) => id)

it('lists those first that have not moved for longest', async () => {
  const { jobs, open: count } = await listOpenJobs(parts, { ...all, limit: 2 })
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
  expect(await countOpenJobs(parts)).toBe(3)
})

it('takes an organization, one mode of it, or what has not moved', async () => {
  expect(await idsOf({ tenant: 'org_1' })).toEqual(['job_b', 'job_a'])
  expect(await idsOf({ tenant: 'org_1.live' })).toEqual(['job_a'])
  expect(await idsOf({ idleForSeconds: 60 })).toEqual(['job_b', 'job_gone'])
})

it('is a table, or says that there is none', async () => {
  const text = jobsText(await listOpenJobs(parts, { ...all, limit: 2 }), (style, text) =>
    style === 'red' ? `!${text.trim()}!` : text)
  const lines = text.split('\n')
  expect(lines[1])
    .toMatch(/^job_b +org_1\.test +phone-validation +verifying +\d+\/10 .*!6 min 40 s!/)
  expect(lines.at(-1)).toBe('3 jobs open. 1 more than --limit shows.')
  expect(jobsText({ jobs: [], open: 0 }, (_, text) => text))
    .toBe('No job is open that fits this.')
})

it('asks for the address before it connects', async () => {
  await expect(withJobs({}, async () => {})).rejects.toThrow('REDIS_STATE_URL is missing')
})
