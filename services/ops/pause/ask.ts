import { createInterface } from 'node:readline/promises'

/** Has a person say yes; undefined where nobody can be asked. */
export type Ask = ((question: string) => Promise<boolean>) | undefined

/** Asks on the terminal, if the command was typed there. */
export function terminalAsk (
  { stdin, stderr }: Pick<NodeJS.Process, 'stdin' | 'stderr'> = process
): Ask {
  if (stdin.isTTY !== true || stderr.isTTY !== true) return undefined
  return async question => {
    const dialogue = createInterface({ input: stdin, output: stderr })
    // The dialogue keeps Ctrl-C to itself otherwise.
    dialogue.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
    try {
      return /^y(es)?$/i.test((await dialogue.question(question)).trim())
    } finally {
      dialogue.close()
    }
  }
}
