import type { Say } from '../../../deploy/local/parts.ts'
import { installPython } from '../../support/deploy/tools.ts'

/** The Python of an environment with DuckDB, pandas and openpyxl. Throws with advice without it. */
export async function installReaders (say: Say): Promise<string> {
  return await installPython({
    name: 'result-readers',
    requirements: `${import.meta.dirname}/requirements.txt`,
    purpose: 'The test that other programs read the result files',
  }, say)
}
