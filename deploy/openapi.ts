import { writeFileSync } from 'node:fs'
import { openapiSource } from '../services/ingest/routes.ts'

writeFileSync(new URL('../schemas/api/openapi.json', import.meta.url), await openapiSource())
