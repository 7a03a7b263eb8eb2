import { rmSync } from 'node:fs'
import { connect } from 'node:net'
import { makeSecure } from '../../../deploy/local/access.ts'
import { loadSecrets } from '../../../deploy/local/launcher/secrets.ts'
import { startStack, type Stack } from '../../../deploy/local/stack.ts'
import { provision } from '../../../deploy/provision.ts'
import { createDemo, type DemoOrganization } from '../../../services/admin/demo.ts'
import { socketsOf } from './processes.ts'
import { startAll, type RunningServices } from './services.ts'
import { closeAfterAll } from '../close-after-all.ts'
import { newFolder } from '../folder.ts'

export type SecureEnvironment = {
  readonly env: Readonly<Record<string, string>>
  readonly stack: Stack
  readonly services: RunningServices
  readonly demo: DemoOrganization
  readonly dataDir: string
}

/**
 * A stack of its own with TLS and passwords everywhere, all services on it, an organization; it
 * ends with the test file.
 */
export async function startSecureEnvironment (
  overrides: Readonly<Record<string, string>>
): Promise<SecureEnvironment> {
  const dataDir = newFolder('verification-jobs-secure-')
  closeAfterAll({ stop: () => rmSync(dataDir, { recursive: true, force: true }) })
  makeSecure(dataDir)
  const stack = closeAfterAll(
    await startStack({ dataDir, source: { kind: 'embedded' }, brokers: 1 }))
  const env = { ...stack.addresses, ...stack.trust, ...loadSecrets(dataDir) }
  await provision(env)
  const demo = await createDemo(env)
  const services = closeAfterAll(
    await startAll({ env, envByStage: stack.envByStage, overrides, processes: 9 }))
  return { env, stack, services, demo, dataDir }
}

/** Every TCP port at which a process listens. */
export const listeningPorts = (pid: number): readonly number[] =>
  socketsOf(pid).filter(({ isListening }) => isListening).map(({ localPort }) => localPort)

/** What a port answers to words without TLS: it may only break off, with an alert of TLS or not. */
export function plainAnswer (port: number, words: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = Buffer.alloc(0)
    const socket = connect(port, '127.0.0.1', () => socket.write(words))
    socket.setTimeout(240_000, () => {
      socket.destroy()
      reject(new Error(`port ${port} kept a plain connection open`))
    })
    socket.on('data', data => { answer = Buffer.concat([answer, data]) })
    socket.on('error', () => {})
    socket.on('close', () => resolve(answer[0] === TLS_ALERT ? 'alert' : answer.toString()))
  })
}

const TLS_ALERT = 0x15
