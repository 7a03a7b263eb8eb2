import { startHaraka } from '../../accuracy/servers/haraka.ts'
import { installHaraka, installMailServers } from '../../accuracy/servers/install.ts'
import { REAL_HOST, type RealServers, startRealServers } from '../../accuracy/servers/real.ts'
import { freePort } from '../../../deploy/local/ports.ts'

/** Real servers by what they run, with the last number of the address of each. */
const SERVERS = {
  Postfix: 26, 'Postfix with postgrey': 27, Exim: 30, OpenSMTPD: 40, Haraka: 50,
} as const

export type RealSoftware = keyof typeof SERVERS

/** What starts together, with where it is installed. */
type Group = {
  readonly software: readonly RealSoftware[]
  readonly start: (port: number) => Promise<RealServers>
}

/**
 * The mail servers of the accuracy suite as some of the small hosts of a list. All of them have the
 * domains `firm-<number>-<number>.net`.
 */
export class RealMailServers {
  readonly software: readonly RealSoftware[]
  readonly #groups: readonly Group[]
  #running: readonly RealServers[] = []
  #port = 0

  private constructor (groups: readonly Group[]) {
    this.#groups = groups
    this.software = groups.flatMap(group => group.software)
  }

  /** Those that this machine can run; says why others are left out. */
  static async install (log: (line: string) => void): Promise<RealMailServers> {
    const groups: Group[] = []
    const add = async (software: Group['software'], install: () => Promise<Group['start']>) => {
      try {
        const group = { software, start: await install() }
        await (await group.start(await freePort())).stop()
        groups.push(group)
      } catch (error) {
        log(`!! mailboxes: ${software.join(', ')} are left out: ${String(error)}`)
      }
    }
    await add(['Postfix', 'Postfix with postgrey', 'Exim', 'OpenSMTPD'], async () => {
      const home = await installMailServers(log)
      return port => startRealServers({ home, port })
    })
    await add(['Haraka'], async () => {
      const home = await installHaraka(log)
      return port => startHaraka({ home, port })
    })
    return new RealMailServers(groups)
  }

  /** Starts them without anything that they remember of earlier questions. */
  async restart (): Promise<void> {
    await this.stop()
    this.#port = await freePort()
    this.#running = await Promise.all(this.#groups.map(group => group.start(this.#port)))
  }

  addressOf (software: RealSoftware): { readonly host: string, readonly port: number } {
    return { host: REAL_HOST(SERVERS[software]), port: this.#port }
  }

  async stop (): Promise<void> {
    await Promise.all(this.#running.map(server => server.stop()))
    this.#running = []
  }
}
