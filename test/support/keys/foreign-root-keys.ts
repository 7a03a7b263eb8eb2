import { rootKeys } from '../../../services/runtime/platform/config.ts'
import { KEY_CLASSES, PROCESS_KEYS } from '../../../services/topology.ts'

/** The settings that a process refuses because none of its services needs them, unset. */
export function withoutForeignRootKeys (
  services: readonly string[]
): Readonly<Record<string, undefined>> {
  const needed = Object.entries(PROCESS_KEYS)
    .flatMap(([name, classes]) => services.includes(name) ? classes : [])
  return Object.fromEntries(KEY_CLASSES.filter(keyClass => !needed.includes(keyClass))
    .flatMap(keyClass => rootKeys[keyClass].map(setting => [setting, undefined])))
}
