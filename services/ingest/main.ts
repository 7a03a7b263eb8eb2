import { run } from '../lib/run.ts'
import { config } from './config.ts'
import { startIngest } from './service.ts'

await run('ingest', config, startIngest)
