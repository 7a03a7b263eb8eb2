import { requireBrowser } from '../support/page/browser.ts'
import {
  installActionlint, installCollector, installCompose, installDefinitions, installHelm,
  installPrometheus, installToxiproxy, installValidator,
} from '../support/deploy/tools.ts'
import { requireJava } from '../../deploy/local/java.ts'
import { installRedis, type Say } from '../../deploy/local/parts.ts'
import {
  installClientPython, installGenerator, requireClientGo,
} from '../e2e/clients/install.ts'
import { installReaders } from '../integration/result-readers/install.ts'
import { installMoto } from '../integration/root-keys/moto.ts'
import { installTransit } from '../integration/root-keys/vault.ts'
import { installSchemathesis } from '../e2e/schemathesis/install.ts'
import { installEngine } from '../containers/open.ts'
import { installControlPlane } from '../api-server/cluster.ts'
import { installMailServers } from '../accuracy/servers/install.ts'
import { installArchives } from './archives.ts'

/** Each makes sure that its tool can be started, and throws with what to do where it can't. */
const TOOLS = {
  helm: installHelm,
  compose: installCompose,
  actionlint: installActionlint,
  definitions: installDefinitions,
  validator: installValidator,
  prometheus: installPrometheus,
  collector: installCollector,
  chromium: requireBrowser,
  toxiproxy: installToxiproxy,
  schemathesis: installSchemathesis,
  moto: installMoto,
  'result-readers': installReaders,
  'vault-transit': installTransit,
  'openapi-generator': installGenerator,
  'client-python': installClientPython,
  'client-go': requireClientGo,
  'container-engine': installEngine,
  'control-plane': installControlPlane,
  'mail-servers': installMailServers,
} as const satisfies Record<string, (say: Say) => Promise<unknown>>

export type ToolName = keyof typeof TOOLS

/** Downloads what the embedded stack is made of. Throws with advice where that is not possible. */
export async function prepareStack (say: Say): Promise<void> {
  await requireJava()
  await installRedis(say)
  await installArchives(say)
}

/** Prepares tools one after the other; the result names each that can't be had, and why. */
export async function prepareTools (
  names: ReadonlySet<ToolName>, say: Say
): Promise<ReadonlyMap<ToolName, string>> {
  const missing = new Map<ToolName, string>()
  for (const name of names) {
    say(`${name} (${[...names].indexOf(name) + 1} of ${names.size})`)
    await TOOLS[name](say).catch((error: Error) => {
      missing.set(name, error.message.split('\n', 1)[0] ?? '')
    })
  }
  return missing
}
