import { pythonWith } from '../../support/deploy/tools.ts'

/** The Python of an environment with DuckDB, pandas and openpyxl. */
export const installReaders = pythonWith('result-readers', import.meta.dirname,
  'The test that other programs read the result files')
