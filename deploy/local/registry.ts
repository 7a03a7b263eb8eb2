import { mkdirSync, readdirSync } from 'node:fs'
import { requireJava } from './java.ts'
import { installRegistry, javaArgs, type PartOptions } from './parts.ts'
import { answersOk, type ProcessSpec } from './process.ts'
import type { Access } from './access.ts'
import { basicAuthorization } from './sign-in.ts'

const PATH = '/apis/ccompat/v7'

/**
 * The schema registry with its data in an H2 file; speaks the Confluent API under its URL. It knows
 * no users of its own: in a secure stack it speaks TLS to a front, which asks for the password.
 */
export async function registryPart (
  options: PartOptions
): Promise<{ spec: ProcessSpec, url: string, front?: ProcessSpec }> {
  const { access, ports } = options
  const port = await ports.port('registry')
  if (access === undefined) {
    const url = `http://127.0.0.1:${port}${PATH}`
    return { url, spec: await registrySpec(options, url, openSettings(port)) }
  }
  const behind = await ports.port('registry-behind')
  const { username, password } = access.accounts.registry
  return {
    url: `https://${username}:${password}@127.0.0.1:${port}${PATH}`,
    spec: await registrySpec(options, `https://127.0.0.1:${behind}${PATH}`,
      secureSettings(behind, access)),
    front: frontSpec(options.dataDir, access, { port, behind }),
  }
}

type Settings = Readonly<Record<string, string | number>>

const openSettings = (port: number): Settings =>
  ({ 'quarkus.http.port': port, 'quarkus.http.host': '127.0.0.1' })

const secureSettings = (port: number, { files }: Access): Settings => ({
  'quarkus.http.host': '127.0.0.1',
  'quarkus.http.insecure-requests': 'disabled',
  'quarkus.http.ssl-port': port,
  'quarkus.http.ssl.certificate.files': files.certificate,
  'quarkus.http.ssl.certificate.key-files': files.key,
  // Its transactions would otherwise take a port, only to identify the process.
  'CoreEnvironmentBean.processImplementationClassName':
    'com.arjuna.ats.internal.arjuna.utils.UuidProcessId',
})

async function registrySpec (
  { dataDir, say }: PartOptions, url: string, listening: Settings
): Promise<ProcessSpec> {
  await requireJava()
  const home = await installRegistry(say)
  const folder = `${dataDir}/registry`
  mkdirSync(folder, { recursive: true })
  const jar = readdirSync(home).find((name) => name.endsWith('-runner.jar'))
  if (jar === undefined) throw new Error(`${home} holds no registry: delete it and start again`)
  const settings = {
    ...listening,
    'quarkus.log.level': 'WARN',
    'quarkus.datasource.jdbc.min-size': 2,
    'quarkus.datasource.jdbc.initial-size': 2,
    'quarkus.datasource.jdbc.max-size': 10,
  }
  const defines = Object.entries(settings).map(([key, value]) => `-D${key}=${value}`)
  return {
    name: 'registry',
    command: 'java',
    args: [...await javaArgs(256, home), ...defines, '-jar', `${home}/${jar}`],
    // Without this variable the registry keeps its data in memory; the write delay is what a
    // killed registry may forget.
    env: { REGISTRY_DATASOURCE_URL: `jdbc:h2:file:${folder}/registry;WRITE_DELAY=0` },
    cwd: folder,
    dataDir,
    ready: () => answersOk(`${url}/subjects`),
    graceMs: 10_000,
  }
}

function frontSpec (
  dataDir: string, access: Access, { port, behind }: { port: number, behind: number }
): ProcessSpec {
  const signIn = { authorization: basicAuthorization(access.accounts.registry) }
  return {
    name: 'registry-front',
    command: process.execPath,
    args: [
      `${import.meta.dirname}/registry-front.ts`,
      '--port', String(port), '--behind', String(behind), '--access', access.folder,
    ],
    dataDir,
    ready: () => answersOk(`https://127.0.0.1:${port}${PATH}/subjects`, signIn),
    graceMs: 5_000,
  }
}
