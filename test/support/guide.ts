/** Commands of a page that go together, and what their output must hold, in this order. */
export type Step = { readonly commands: string, readonly shown: readonly string[] }

const FENCE = /^```(sh|text)\n([^]*?)^```$/gm

/**
 * The steps of a page in Markdown: blocks of `sh`, up to and with the block of `text` that says
 * what they print. Commands that are not to be run stand in blocks without a language.
 */
export function stepsOf (page: string): readonly Step[] {
  const steps: Step[] = []
  let commands = ''
  for (const [, kind, content = ''] of page.matchAll(FENCE)) {
    if (kind === 'sh') commands += content
    else {
      steps.push({ commands, shown: content.trim().split('\n') })
      commands = ''
    }
  }
  return commands === '' ? steps : [...steps, { commands, shown: [] }]
}

/** The part of a page below a heading, up to the next one of the same depth. */
export function sectionOf (page: string, heading: string): string {
  const [, below] = page.split(`\n## ${heading}\n`)
  if (below === undefined) throw new Error(`there is no section "${heading}"`)
  return below.split('\n## ')[0] ?? ''
}

/** The first text that is not shown behind the ones before it; undefined when all are there. */
export function missingIn (output: string, shown: readonly string[]): string | undefined {
  let from = 0
  return shown.find((text) => {
    const at = output.indexOf(text, from)
    from = at + text.length
    return at < 0
  })
}
