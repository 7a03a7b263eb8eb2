import { Cluster, type Command } from 'ioredis'
import { InfrastructureError } from './errors.ts'

const RETRY_AFTER_MS = 1_000
/** Errors of a server that is gone or not part of the cluster, unlike those of a single slot. */
const SERVER_FAILURE = /Connection is closed|timed out|CLUSTERDOWN|LOADING|MOVED/

type Failure = { readonly retryAtMs: number, isProbed: boolean }

/**
 * A connection to a cluster on which a server that has just failed delays nobody: a command to it
 * waits for reconnections once, and for the next second the others fail at once. Then one command
 * tries again. Commands to other servers are not affected.
 */
export class FailFastCluster extends Cluster {
  readonly #failures = new Map<string, Failure>()

  override sendCommand (...given: Parameters<Cluster['sendCommand']>): unknown {
    const [command] = given
    const server = this.#serverOf(command)
    if (server === undefined) return super.sendCommand(...given)
    const failure = this.#failures.get(server)
    if (failure !== undefined) {
      if (failure.isProbed || performance.now() < failure.retryAtMs) {
        command.reject(new InfrastructureError(`the Redis server ${server} does not respond`))
        return command.promise
      }
      failure.isProbed = true
    }
    const answered = () => { this.#failures.delete(server) }
    command.promise.then(answered, (error: unknown) => {
      if (!SERVER_FAILURE.test(String(error))) return answered()
      this.#failures.set(server, { retryAtMs: performance.now() + RETRY_AFTER_MS, isProbed: false })
    })
    return super.sendCommand(...given)
  }

  /** The server of the keys of a command; undefined for a command without keys. */
  #serverOf (command: Command): string | undefined {
    const slot = command.getSlot()
    return slot === null ? undefined : this.slots[slot]?.[0]
  }
}
