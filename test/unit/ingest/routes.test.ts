import { expect, it } from 'vitest'
import { jobRoutes, routesOf } from '../../../services/ingest/routes.ts'
import { docsRoutes } from '../../../services/ingest/routes/docs.ts'
import { createBodyBudget } from '../../../services/ingest/body.ts'
import { application, doubles, good, settings } from './doubles.ts'

it('every route below the version needs a scope, and no other does', () => {
  const routes = routesOf(doubles(), settings)
  const open = routes.filter(({ config }) => config?.scope === undefined).map(({ url }) => url)
  expect(open).toEqual(['/', '/openapi.json', '/docs', '/changelog'])
  expect(docsRoutes(async () => ({}) as never).map(({ url }) => url)).toEqual(open.slice(1, 4))
  const writes = routes.filter(({ method }) => method === 'POST')
  const mayWrite = /:write$/
  expect(writes.filter(({ config }) =>
    ![config?.scope].flat().some(scope => mayWrite.test(scope ?? '')))).toEqual([])
  expect(jobRoutes(doubles(), settings, createBodyBudget(1)).length).toBeGreaterThan(4)
})

it('jobs and quotes share the memory for bodies', async () => {
  const held = Promise.withResolvers<void>()
  const submitting = Promise.withResolvers<void>()
  const { app, post } = application({
    submit: async () => {
      submitting.resolve()
      await held.promise
      return { kind: 'reused' }
    },
  }, { bodyBudgetBytes: 10 })
  const large = JSON.stringify(good).padEnd(70_000)
  const first = post(large).then(({ statusCode }) => statusCode)
  await submitting.promise
  const second = await app.inject({
    method: 'POST',
    url: '/api/v1/quotes',
    payload: large,
    headers: { authorization: 'Bearer live', 'content-type': 'application/json' },
  })
  held.resolve()
  expect([second.statusCode, await first]).toEqual([503, 422])
})
