import { execFile } from 'node:child_process'
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { promisify } from 'node:util'
import { newFolder } from '../support/folder.ts'

const run = promisify(execFile)

/**
 * The clock of one program that a fault moves while it runs. libfaketime would do more, but does
 * not start together with the memory allocator of Redis.
 */
export class MovedClock {
  readonly #library: string
  readonly #file: string

  private constructor (folder: string) {
    this.#library = `${folder}/moved-clock.so`
    this.#file = `${folder}/offset`
    writeFileSync(this.#file, Buffer.alloc(8))
  }

  /** @throws Error where there is no C compiler. */
  static async create (): Promise<MovedClock> {
    const folder = newFolder('verification-jobs-clock-')
    const source = `${import.meta.dirname}/moved-clock.c`
    await run('cc', ['-O2', '-Wall', '-shared', '-fPIC', '-o', `${folder}/moved-clock.so`, source])
    return new MovedClock(folder)
  }

  /** What the program needs from its start. */
  get env (): Readonly<Record<string, string>> {
    return { LD_PRELOAD: this.#library, MOVED_CLOCK_FILE: this.#file }
  }

  /** From now on the clock is ahead by so many seconds, or behind. */
  set (seconds: number): void {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(seconds) * 1_000_000n)
    // In place, as the program has the file in its memory.
    const file = openSync(this.#file, 'r+')
    writeSync(file, bytes)
    closeSync(file)
  }
}
