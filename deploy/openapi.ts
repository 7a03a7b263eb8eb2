import { writeFileSync } from 'node:fs'
import { openapiSource } from '../services/ingest/openapi/source.ts'

writeFileSync(new URL('../schemas/api/openapi.json', import.meta.url), await openapiSource())
