import { run } from '../runtime/platform/run.ts'
import { pageConfig } from './config.ts'
import { startPage } from './service.ts'

export const pageService = { config: pageConfig, start: startPage }

if (import.meta.main) await run('page', pageConfig, startPage)
