import { createInterface } from 'node:readline/promises'

/** Has a person say yes; undefined where nobody can be asked. */
export type Ask = ((question: string) => Promise<boolean>) | undefined

type Streams = {
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  readonly output: NodeJS.WritableStream & { readonly isTTY?: boolean }
}

/** Asks on a terminal, if both ends of it are one. */
export function askOn ({ input, output }: Streams): Ask {
  if (input.isTTY !== true || output.isTTY !== true) return undefined
  return async question => {
    const dialogue = createInterface({ input, output })
    // The dialogue keeps Ctrl-C to itself otherwise.
    dialogue.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
    try {
      return /^y(es)?$/i.test((await dialogue.question(question)).trim())
    } finally {
      dialogue.close()
    }
  }
}
