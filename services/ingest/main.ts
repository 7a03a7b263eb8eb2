import { run } from '../platform/run.ts'
import { ingestConfig } from './config.ts'
import { startIngest } from './service.ts'

await run('ingest', ingestConfig, startIngest)
