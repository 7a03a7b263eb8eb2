import { KEY_CLASSES, type KeyClass, PROCESS_KEYS } from '../../topology.ts'
import type { Environment } from './command-environment.ts'
import { ConfigError, rootKeys } from './config.ts'

/** The classes of root keys that no service of a process needs. */
export function foreignKeyClasses (services: readonly string[]): readonly KeyClass[] {
  const needed = Object.entries(PROCESS_KEYS)
    .flatMap(([name, classes]) => services.includes(name) ? classes : [])
  return KEY_CLASSES.filter(keyClass => !needed.includes(keyClass))
}

/**
 * Refuses root keys that no service of the process needs, so that a process that is taken over has
 * only those of its classes. An empty variable counts as missing.
 * @throws ConfigError that names each such setting.
 */
export function refuseForeignRootKeys (services: readonly string[], env: Environment): void {
  const need = `${services.join(' and ')} ${services.length === 1 ? 'needs' : 'need'}`
  const faults = foreignKeyClasses(services).flatMap(keyClass => rootKeys[keyClass]
    .filter(setting => (env[setting]?.trim() ?? '') !== '')
    .map(setting => `${setting} is set, but ${need} no root keys of ${keyClass}: remove it from ` +
      'the environment of this process'))
  if (faults.length > 0) throw new ConfigError(faults)
}
