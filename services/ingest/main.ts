import { run } from '../runtime/platform/run.ts'
import { ingestConfig } from './config.ts'
import { startIngest } from './service.ts'

export const ingestService = { config: ingestConfig, start: startIngest }

if (import.meta.main) await run('ingest', ingestConfig, startIngest)
