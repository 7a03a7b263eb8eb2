import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../sources.ts'

/** A fenced block of a page in Markdown; `line` is that of its fence. */
export type Block = {
  readonly page: string
  readonly line: number
  readonly language: string
  readonly content: string
}

/** Commands of a page that go together, and what their output must hold, in this order. */
export type Step = { readonly commands: string, readonly shown: readonly string[] }

const FENCE = /^( *)```([^\n`]*)\n([^]*?)^\1```$/gm

/** All fenced blocks of a page, also those within lists, without the indent of their fence. */
export function blocksOf (page: string, text: string): readonly Block[] {
  return [...text.matchAll(FENCE)].map(match => {
    const [, indent = '', language = '', content = ''] = match
    const line = text.slice(0, match.index).split('\n').length
    return { page, line, language, content: content.replaceAll(new RegExp(`^${indent}`, 'gm'), '') }
  })
}

/** The commands of the first block under a heading of a page that begins with a word. */
export function commandsUnder (heading: string, page: string, begins: string): readonly string[] {
  const text = readFileSync(join(root, page), 'utf8')
  const blocks = blocksOf(page, text.slice(text.search(new RegExp(`^##+ ${heading}$`, 'm'))))
  const block = blocks.find(({ content }) => content.startsWith(begins))
  if (block === undefined) throw new Error(`${page} has no commands of ${begins} in ${heading}`)
  return block.content.trim().split('\n')
}

/**
 * The steps of a page: blocks of `sh`, up to and with the block of `text` that says what they
 * print, with `…` for what is left out.
 */
export function stepsOf (blocks: readonly Block[]): readonly Step[] {
  const steps: Step[] = []
  let commands = ''
  for (const { language, content } of blocks) {
    if (language === 'sh') commands += content
    if (language === 'text') {
      const shown = content.trim().split(/\n|…/).filter(text => text.trim() !== '')
      steps.push({ commands, shown })
      commands = ''
    }
  }
  return commands === '' ? steps : [...steps, { commands, shown: [] }]
}

/** The first text that does not follow the previous ones; undefined when all are there. */
export function missingIn (output: string, shown: readonly string[]): string | undefined {
  let from = 0
  return shown.find((text) => {
    const at = output.indexOf(text, from)
    from = at + text.length
    return at < 0
  })
}

/** A script of package.json as a page calls it. */
export type Mention = {
  readonly page: string
  readonly script: string
  /** Words before the first option: commands of the script, and their operands. */
  readonly words: readonly string[]
  readonly options: readonly string[]
}

const CALL = /npm (?:run )?(start|test|(?<=run )[\w:]+)((?: [^\n`#|]*)?)/g

/** Every `npm run ...` of a page, within blocks and within lines. */
export function mentionsOf (page: string, text: string): readonly Mention[] {
  return [...text.matchAll(CALL)].map(([, script = '', rest = '']) => {
    const [, given = ''] = ` ${rest} `.split(' -- ', 2)
    const quoted = given.replaceAll(/"[^"]*"|'[^']*'/g, 'TEXT')
    const words = quoted.split(/[\s\\),.;]+/).filter(word => word !== '')
    const first = words.findIndex(word => word.startsWith('-'))
    return {
      page,
      script,
      words: first < 0 ? words : words.slice(0, first),
      options: words.filter(word => /^--\w/.test(word)),
    }
  })
}
