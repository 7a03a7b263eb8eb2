import { expect, it } from 'vitest'
import { createRoutes } from '../../../services/ingest/routes.ts'
import { doubles, settings } from './doubles.ts'

it('every route below the version needs a scope, and no other does', () => {
  const routes = createRoutes(doubles(), settings)
  const open = routes.filter(({ config }) => config?.scope === undefined).map(({ url }) => url)
  expect(open, 'these routes are public: set config.scope, or add them here')
    .toEqual(['/', '/openapi.json', '/docs', '/changelog'])
  const writes = routes.filter(({ method }) => method === 'POST')
  const mayWrite = /:write$/
  const reading = writes.filter(({ config }) =>
    ![config?.scope].flat().some(scope => mayWrite.test(scope ?? '')))
  expect(reading.map(({ url }) => url), 'these routes take POST without a scope that may write')
    .toEqual([])
})
