import { Type } from 'typebox'

/** The version date of the interface, sent with every response and event. */
export const API_VERSION = '2026-08-11'

const Path = Type.String({ description: 'Relative to the host.' })

/** The answer to GET /. */
export const ROOT = {
  name: 'Verification Jobs',
  version: API_VERSION,
  api: '/api/v1',
  documentation: '/docs',
  openapi: '/openapi.json',
  changelog: '/changelog',
}

/** Its schema. */
export const RootSchema = Type.Object({
  name: Type.String(),
  version: Type.String({ description: 'The date of the version of the interface.' }),
  api: Path,
  documentation: Path,
  openapi: Path,
  changelog: Path,
}, { title: 'Root', examples: [ROOT] })
