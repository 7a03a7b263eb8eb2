import { createHmac } from 'node:crypto'
import { boundedCache } from '../../runtime/platform/bounded-cache.ts'
import type { HostMemory } from './memory.ts'

/** A fault of ours in work that nobody awaits ends the process, as any other. */
export function failLoudly (error: unknown): never {
  throw error
}

const MAX_DOMAINS = 100_000
/** How long a process uses a result without asking the memory, which keeps it for a day. */
const KNOWN_MS = 3_600_000

/** The tests of domains with made-up names: one for each exchange, domain and day. */
export class CatchAllTests {
  readonly #memory: HostMemory
  readonly #known = boundedCache<boolean>({ entries: MAX_DOMAINS, ttl: KNOWN_MS })
  /** Domains whose test was not possible after a row. */
  readonly #urgent = boundedCache<true>({ entries: MAX_DOMAINS, ttl: KNOWN_MS })
  readonly #running = new Map<string, Promise<boolean | undefined>>()

  constructor (memory: HostMemory) {
    this.#memory = memory
  }

  async find (exchange: string, domain: string): Promise<boolean | undefined> {
    const key = `${exchange} ${domain}`
    const answer = this.#known.get(key) ?? await this.#memory.catchAll(exchange, domain)
    if (answer !== undefined) this.#known.set(key, answer)
    return answer
  }

  setUrgent (exchange: string, domain: string): void {
    this.#urgent.set(`${exchange} ${domain}`, true)
  }

  /** Whether a domain is to be tested before its rows are asked; once. */
  takeUrgent (exchange: string, domain: string): boolean {
    return this.#urgent.delete(`${exchange} ${domain}`)
  }

  /** A test to make, and its `finish`, or the result of the session that is making it. */
  claim (exchange: string, domain: string):
    | { readonly finish: (isCatchAll?: boolean) => void }
    | { readonly result: Promise<boolean | undefined> } {
    const key = `${exchange} ${domain}`
    const running = this.#running.get(key)
    if (running !== undefined) return { result: running }
    const { promise, resolve } = Promise.withResolvers<boolean | undefined>()
    this.#running.set(key, promise)
    const finish = async (isCatchAll?: boolean) => {
      if (isCatchAll !== undefined) {
        await this.#memory.rememberCatchAll(exchange, domain, isCatchAll)
      }
      this.#running.delete(key)
      resolve(isCatchAll)
    }
    return { finish: isCatchAll => { finish(isCatchAll).catch(failLoudly) } }
  }
}

/** The time after which a domain gets another made-up name. */
const MADE_UP_MS = 7 * 24 * 3_600_000
const CONSONANTS = 'bdfgklmnprstvz'
const VOWELS = 'aeiou'

/**
 * An address at a domain that no person has. It stays the same for a week, in every process with
 * this key, as servers that greylist remember recipients; and it reads like a name, as some servers
 * answer random letters differently. The weeks of domains begin at different times.
 */
export function madeUpAddress (domain: string, key: string): string {
  const offset = createHmac('sha256', key).update(domain).digest().readUInt32BE()
  const epoch = Math.floor((Date.now() + offset % MADE_UP_MS) / MADE_UP_MS)
  const bytes = createHmac('sha256', key).update(`${domain} ${epoch}`).digest()
  const pick = (letters: string, index: number) => letters[(bytes[index] ?? 0) % letters.length]
  const syllables = Array.from({ length: 7 }, (_, index) =>
    `${pick(CONSONANTS, index * 2)}${pick(VOWELS, index * 2 + 1)}`)
  const name = `${syllables.slice(0, 3).join('')}.${syllables.slice(3).join('')}`
  return `${name}${100 + bytes.readUInt16BE(14) % 900}@${domain}`
}
