import type { TObject } from 'typebox'
import { commonConfig } from '../../../services/runtime/platform/config.ts'

/**
 * The settings that services share, as far as none of these reads them, unset: a process of the
 * local stack has no address and no secret that it does not use.
 */
export async function unreadSettings (
  services: readonly string[]
): Promise<Readonly<Record<string, undefined>>> {
  const read = new Set((await Promise.all(services.map(settingsOf))).flat())
  return Object.fromEntries(Object.keys(commonConfig)
    .filter(name => !read.has(name)).map(name => [name, undefined]))
}

async function settingsOf (service: string): Promise<readonly string[]> {
  const file = new URL(`../../../services/${service}/config.ts`, import.meta.url)
  const exported = await import(file.href) as Readonly<Record<string, Partial<TObject>>>
  return Object.values(exported).flatMap(({ properties = {} }) => Object.keys(properties))
}
