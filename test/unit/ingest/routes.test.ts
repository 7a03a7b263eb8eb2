import { expect, it } from 'vitest'
import { routesOf } from '../../../services/ingest/routes.ts'
import { doubles, settings } from './doubles.ts'

it('every route below the version needs a scope, and no other does', () => {
  const routes = routesOf(doubles(), settings)
  const open = routes.filter(({ config }) => config?.scope === undefined).map(({ url }) => url)
  expect(open).toEqual(['/', '/openapi.json', '/docs', '/changelog'])
  const writes = routes.filter(({ method }) => method === 'POST')
  const mayWrite = /:write$/
  expect(writes.filter(({ config }) =>
    ![config?.scope].flat().some(scope => mayWrite.test(scope ?? '')))).toEqual([])
})
