import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DockerfileParser } from 'dockerfile-ast'
import { validate } from 'dockerfile-utils'
import { runTool } from './tools.ts'
import { root } from '../sources.ts'

export const dockerfile = join(root, 'deploy/Dockerfile')

/** One instruction: `RUN`, and its arguments. */
type Step = {
  readonly keyword: string
  readonly text: string
  readonly words: readonly string[]
}
export type Stage = {
  readonly name: string
  readonly image: string
  readonly steps: readonly Step[]
}

type Instruction = {
  readonly getKeyword: () => string
  readonly getTextContent: () => string
}
/** The build stages of the Dockerfile, in order. */
export function buildStages (): readonly Stage[] {
  const stages: { name: string, image: string, steps: Step[] }[] = []
  const parsed = DockerfileParser.parse(readFileSync(dockerfile, 'utf8'))
  for (const instruction of parsed.getInstructions()) {
    const step = stepOf(instruction)
    const [image = '', , name = ''] = step.words
    if (step.keyword === 'FROM') stages.push({ name, image, steps: [] })
    else stages.at(-1)?.steps.push(step)
  }
  return stages
}

/** The findings of the linter for the text of a Dockerfile. */
export const lint = (text: string): readonly string[] =>
  validate(text).map(({ message }) => String(message))

/**
 * Does in a folder what the Dockerfile does in the image, but for what installs packages of the
 * system: copies what it copies and runs what it runs. The folder of a stage is named like it.
 */
export async function buildIn (folder: string): Promise<void> {
  for (const { name, steps } of buildStages()) {
    const app = join(folder, name)
    mkdirSync(app)
    for (const step of steps) {
      if (step.keyword === 'COPY') copy(step.words, app, folder)
      if (step.keyword !== 'RUN' || step.text.includes('apt-get')) continue
      const { code, output } = await runTool('sh', ['-c', `cd ${app} && ${step.text}`])
      if (code !== 0) throw new Error(`${step.text}: ${output}`)
    }
  }
}

function stepOf (instruction: Instruction): Step {
  const keyword = instruction.getKeyword()
  // The parser's own arguments lack the flags.
  const text = instruction.getTextContent().slice(keyword.length).replace(/\\\n\s*/g, ' ').trim()
  return { keyword, text, words: text.split(/\s+/) }
}

/** `COPY --from=<stage> /app/<what> <to>`, or `COPY <what>... <to>` from the checkout. */
function copy (words: readonly string[], app: string, folder: string): void {
  const stage = words[0]?.startsWith('--from=') ? words[0].slice('--from='.length) : undefined
  const paths = stage === undefined ? words : words.slice(1)
  const to = paths.at(-1) ?? ''
  for (const path of paths.slice(0, -1)) {
    const source = stage === undefined
      ? join(root, path)
      : join(folder, stage, path.replace(/^\/app\//, ''))
    const target = to.endsWith('/') ? join(app, to, path.split('/').at(-1) ?? '') : join(app, to)
    mkdirSync(dirname(target), { recursive: true })
    cpSync(source, target, { recursive: true, verbatimSymlinks: true })
  }
}
