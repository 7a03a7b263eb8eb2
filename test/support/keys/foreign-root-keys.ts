import { rootKeys } from '../../../services/runtime/platform/config.ts'
import { foreignKeyClasses } from '../../../services/runtime/platform/foreign-root-keys.ts'

/** The settings that `refuseForeignRootKeys` refuses, unset: to start a process of services. */
export function withoutForeignRootKeys (
  services: readonly string[]
): Readonly<Record<string, undefined>> {
  return Object.fromEntries(foreignKeyClasses(services)
    .flatMap(keyClass => rootKeys[keyClass].map(setting => [setting, undefined])))
}
