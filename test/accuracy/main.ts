import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { accuracyPage, figuresText, measureAll, readFigures, worseFigures } from './accuracy.ts'

const USAGE = `npm run accuracy [-- --save] [-- --cases]

Measures how true the verdicts are, by suites of others, and prints a table. It compares with the
figures in test/accuracy/figures.json, and fails if one has become worse.

  --save   writes these figures, and deploy/docs/accuracy.md
  --cases  also prints cases that are not right
  --help   prints this text`

const FIGURES = new URL('figures.json', import.meta.url)
const PAGE = new URL('../../deploy/docs/accuracy.md', import.meta.url)

const { values } = parseArgs({
  options: {
    save: { type: 'boolean', default: false },
    cases: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) console.log(USAGE)
else await run()

async function run (): Promise<void> {
  const rows = await measureAll()
  console.log(accuracyPage(rows))
  if (values.cases) {
    for (const { suite, part, cases } of rows) {
      for (const text of cases) console.log(`${suite}, ${part}: ${text}`)
    }
  }
  if (values.save) {
    writeFileSync(FIGURES, figuresText(rows))
    writeFileSync(PAGE, accuracyPage(rows))
    return
  }
  const worse = worseFigures(readFigures(), rows)
  for (const text of worse) console.error(text)
  if (worse.length === 0) return
  console.error('If the new figures are meant, save them: npm run accuracy -- --save')
  process.exitCode = 1
}
