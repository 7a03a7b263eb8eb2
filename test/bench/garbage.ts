import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/**
 * Collects what this process has left behind, as the inputs and the file of the job before are:
 * otherwise it does so on the cores of the services while the next job is measured, which a client
 * on another machine would not.
 */
export function collectGarbage (): void {
  collect()
}
