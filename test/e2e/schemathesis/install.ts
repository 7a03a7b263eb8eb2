import { pythonWith } from '../../support/deploy/tools.ts'

/** The Python of an environment that holds schemathesis. */
export const installSchemathesis = pythonWith('schemathesis', import.meta.dirname,
  'The test of the interface by its own description')
