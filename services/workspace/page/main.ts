import { run } from '../../platform/run.ts'
import { pageConfig } from './config.ts'
import { startPage } from './service.ts'

await run('page', pageConfig, startPage)
