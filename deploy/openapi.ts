import { openapiSource } from '../services/ingest/routes.ts'
import { writeGenerated } from './generated.ts'

writeGenerated('openapi', 'Generates the OpenAPI document from the routes and their schemas.',
  new Map([[new URL('../schemas/api/openapi.json', import.meta.url), await openapiSource()]]))
