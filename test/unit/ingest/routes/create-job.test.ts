import { describe, expect, it } from 'vitest'
import { MAX_BODY_BYTES } from '../../../../schemas/api/create-job.ts'
import { createJobRoute } from '../../../../services/ingest/routes/create-job.ts'
import { application, closedJob, doubles, good, settings } from '../doubles.ts'

const KEY = '7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'

describe('the route that creates jobs', () => {
  it('needs the scope to write and accepts the largest body', () => {
    expect(createJobRoute(doubles(), settings)).toMatchObject({
      method: 'POST',
      url: '/api/v1/jobs',
      bodyLimit: 35_651_584,
      config: { scope: 'jobs:write', produces: 'application/json', takesBody: true },
    })
    expect(MAX_BODY_BYTES).toBe(35_651_584)
  })

  it('answers a replay with the body of the first answer, though the job has ended', async () => {
    const { post } = application({
      submit: async () => ({ kind: 'accepted', job: closedJob(), replayed: true }),
    })
    const first = await application().post(good)
    const again = await post(good, { headers: { 'idempotency-key': KEY } })
    expect([again.body, again.headers['idempotent-replayed']]).toEqual([first.body, 'true'])
  })
})
