import { createInterface } from 'node:readline/promises'
import { createProgressLine, type ProgressLine } from './progress-line.ts'
import { submitText, type SubmitProgress } from './submit-progress.ts'

type Input = NodeJS.ReadableStream & { readonly isTTY?: boolean }
type Output = NodeJS.WritableStream & { readonly isTTY?: boolean }

/** Where a command reads and writes; replaced by tests. */
export type Streams = {
  readonly input: Input
  readonly output: Output
  readonly errors: Output
}

export type Console = {
  /** For the person at the command line; nothing when the command is to be quiet. */
  readonly say: (line: string) => void
  readonly progress: (progress: SubmitProgress) => void
  /** What the command was asked for. */
  readonly print: (text: string) => void
  /** Missing where nobody can answer. */
  readonly ask: ((question: string) => Promise<boolean>) | undefined
  readonly end: () => void
}

/** Talks beside the answer: the answer goes to the output, all else to the errors. */
export function createConsole (
  { input, output, errors }: Streams, { quiet }: { readonly quiet: boolean }
): Console {
  let line: ProgressLine<SubmitProgress> | undefined
  const end = () => {
    line?.end()
    line = undefined
  }
  const canAsk = input.isTTY === true && errors.isTTY === true
  return {
    say: text => {
      if (quiet) return
      line?.end()
      errors.write(`${text}\n`)
    },
    progress: progress => {
      if (quiet) return
      line ??= createProgressLine(errors, { textOf: submitText })
      line.show(progress)
    },
    print: text => { output.write(`${text}\n`) },
    ask: canAsk ? question => isYes(question, { input, output: errors }) : undefined,
    end,
  }
}

async function isYes (
  question: string, streams: { readonly input: Input, readonly output: Output }
): Promise<boolean> {
  const dialogue = createInterface(streams)
  // The dialogue keeps Ctrl-C to itself otherwise.
  dialogue.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    return /^y(es)?$/i.test((await dialogue.question(question)).trim())
  } finally {
    dialogue.close()
  }
}
