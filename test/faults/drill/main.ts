import { Command } from 'commander'
import { announcement, drillTable, runDrill } from './run.ts'
import { LOSSES } from './losses.ts'

new Command('drill')
  .description('Destroys each store alone on a stack of its own, restores it, and compares ' +
    'accounts, jobs and money with what was there before. Exits with 1 when anything is lost ' +
    'that is not announced here.')
  .addHelpText('after', `\n${LOSSES.map(announcement).join('\n')}`)
  .parse()

const drilled = await runDrill(line => console.log(line))
console.log(`\n${drillTable(drilled)}`)
process.exit(drilled.every(({ lost }) => lost.length === 0) ? 0 : 1)
