import type { Say } from '../../../deploy/local/parts.ts'
import { installPython } from '../../support/deploy/tools.ts'

/** The Python of an environment that holds schemathesis. Throws with advice without Python. */
export async function installSchemathesis (say: Say): Promise<string> {
  return await installPython({
    name: 'schemathesis',
    requirements: `${import.meta.dirname}/requirements.txt`,
    purpose: 'The test of the interface by its own description',
  }, say)
}
