import { askOn, type Ask } from './ask.ts'
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
  readonly ask: Ask
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
    ask: askOn({ input, output: errors }),
    end,
  }
}
