import { run } from '../../lib/run.ts'
import { pageConfig } from './config.ts'
import { startPage } from './service.ts'

await run('page', pageConfig, startPage)
